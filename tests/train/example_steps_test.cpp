// Steps of which every example is clipped by itself, against a plain twin.

#include "cleave/train/step/example_steps.h"

#include <algorithm>
#include <map>

#include "support/temporary_directory.h"
#include "train/tiny_config.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/secure/noise.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

using Tensors = std::map<std::string, std::vector<float>>;

constexpr double kClip = 0.75;
constexpr double kNoise = 0.8;

/// One client of a run, whose weights are fresh and whose secret is known. The rate is a power of
/// two, so that a plain update rounds once.
struct OneClient {
  testing::TemporaryDirectory directory;
  Config config;
  std::optional<data::Data> data;
  std::optional<ClientData> clients;
  std::optional<engine::CompiledStep> compiled;
  comm::LocalWorld one{1};
  std::unique_ptr<comm::Communicator> world = one.join(0);
  std::optional<Trainer> trainer;
  secure::Bytes32 secret{};

  explicit OneClient(int batch) {
    secret.fill('s');
    directory.write("out/secret", std::string(32, 's'));
    std::string text;
    for (unsigned i = 0, x = 3; i < 200; ++i, x = x * 1664525 + 1013904223)
      text += static_cast<char>('a' + (x >> 24) % 9);
    config = testing::config_with(
        {"train.out=" + directory.path("out"), "data.path=" + directory.write("text.txt", text),
         "train.batch=" + std::to_string(batch)},
        "[model]\nlayers = 2\nhidden = 32\nheads = 4\n[train]\nsteps = 1\nsequence = 16\nlr = "
        "0.5\nschedule = \"constant\"\nwarmup = 0\noptimizer = \"sgd\"\nmomentum = "
        "0.0\nweight_decay = 0.0\n[edge]\nclients = 1\nsync_every = 1\nexample_clip = "
        "0.75\nexample_noise = 0.8\n");
    data.emplace(data_query(config));
    clients = client_data(config, *data);
    compiled = compile_step(config);
    trainer.emplace(config, TrainingData{.data = &*data, .clients = &*clients}, *compiled, 0,
                    *world);
    trainer->initialise();
  }
};

/// Keeps gradients and weights as they are.
class Recorder : public engine::Optimizer {
 public:
  double clip() const override { return 0; }
  void update(ops::Compute&, const engine::ParameterState& parameter, double) override {
    const float* gradient = parameter.gradient.as<float>();
    const float* weight = parameter.master.as<float>();
    gradients[parameter.spec->name].assign(gradient, gradient + parameter.elements());
    weights[parameter.spec->name].assign(weight, weight + parameter.elements());
  }

  Tensors gradients, weights;
  double norm = 0;
};

/// The gradient of an example of the client, and the weights that it is of.
Recorder recorded(OneClient& client, std::int64_t example) {
  Recorder recorder;
  BatchSource source(client.data->training(), client.compiled->model,
                     {.first = 0, .microbatch = 1});
  source.begin_batch_of(*client.clients, 0, example);
  const auto losses = static_cast<double>(source.step_targets());
  recorder.norm = client.trainer->device()
                      .executor()
                      .run({.source = &source,
                            .optimizer = &recorder,
                            .loss_scale = static_cast<float>(1 / losses)})
                      .gradient_norm;
  return recorder;
}

/// The weights after a step of plain gradient descent, by the mean of clipped gradients with noise.
Tensors twin(OneClient& client, int batch, int& clipped) {
  const secure::Bytes32 key = secure::derive(client.secret, "examples, client 0, round 0, step 0");
  const std::int64_t examples = client.clients->windows_of(0);
  Tensors sums, weights;
  for (const std::int64_t example :
       ExampleSteps::drawn(key, examples, batch / static_cast<double>(examples))) {
    const Recorder one = recorded(client, example);
    const auto scale = static_cast<float>(std::min(1.0, kClip / (one.norm + 1e-6)));
    clipped += scale < 1;
    weights = one.weights;
    for (const auto& [name, gradient] : one.gradients) {
      sums[name].resize(gradient.size());
      for (std::size_t i = 0; i < gradient.size(); ++i) sums[name][i] += scale * gradient[i];
    }
  }
  for (auto& [name, values] : weights) {
    std::vector<double> noise(values.size());
    secure::fill_noise(secure::derive(key, "noise " + name), 0, noise);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] -= 0.5f * static_cast<float>((sums[name][i] + kNoise * kClip * noise[i]) / batch);
  }
  return weights;
}

TEST(ExampleSteps, FollowTheMeanOfClippedGradientsAndNoise) {
  for (const int batch : {12, 5}) {
    OneClient client(batch);
    ASSERT_EQ(client.clients->windows_of(0), 12);
    int clipped = 0;
    const Tensors expected = twin(client, batch, clipped);
    EXPECT_GT(clipped, 0);

    client.trainer->step();

    EXPECT_EQ(recorded(client, 0).weights, expected) << "batch " << batch;
  }
}

TEST(ExampleSteps, DrawEveryExampleByItself) {
  const secure::Bytes32 key = secure::derive(secure::Bytes32{1}, "a step");
  const std::int64_t examples = 40000;
  const double chance = 0.1;

  const std::vector<std::int64_t> drawn = ExampleSteps::drawn(key, examples, chance);

  // Five deviations of a binomial count: 300 of 4,000.
  EXPECT_NEAR(static_cast<double>(drawn.size()), 4000, 300);
  EXPECT_EQ(ExampleSteps::drawn(key, examples, chance), drawn);
  EXPECT_NE(ExampleSteps::drawn(secure::derive(key, "another"), examples, chance), drawn);
  EXPECT_EQ(std::ssize(ExampleSteps::drawn(key, 100, 1)), 100);
}

}  // namespace
}  // namespace cleave::train
