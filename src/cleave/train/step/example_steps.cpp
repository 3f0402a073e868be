#include "cleave/train/step/example_steps.h"

#include <algorithm>
#include <array>

#include "cleave/base/check.h"
#include "cleave/secure/accountant.h"
#include "cleave/secure/noise.h"
#include "cleave/train/step/round_clients.h"
#include "cleave/train/step/round_slots.h"
#include "cleave/train/step/run_secret.h"

namespace cleave::train {

using detail::concat;

ExampleOptimizer::ExampleOptimizer(const Config& config, RunOptimizer& inner)
    : inner_(inner),
      clip_(config.edge.example_clip),
      deviation_(config.edge.example_noise * config.edge.example_clip),
      batch_(static_cast<double>(config.train.batch)) {}

void ExampleOptimizer::begin(const Example& example, const secure::Bytes32& key) {
  example_ = example;
  key_ = key;
}

void ExampleOptimizer::update(ops::Compute& compute, const engine::ParameterState& parameter,
                              double gradient_scale) {
  float* sum = parameter.slot(kExamplesSlot).as<float>();
  const float* gradient = parameter.gradient.as<float>();
  const auto scale = static_cast<float>(gradient_scale);
  for (std::int64_t i = 0; i < parameter.elements(); ++i) {
    const float before = example_.first ? 0.0f : sum[i];
    sum[i] = example_.counts ? before + scale * gradient[i] : before;
  }
  if (!example_.last) return;
  close(parameter);
  inner_.update(compute, parameter, 1);
}

/// The gradient becomes the mean over a step's examples, with noise. Both uses of a tied weight
/// have the noise of the one that owns it.
void ExampleOptimizer::close(const engine::ParameterState& parameter) const {
  const ParameterSpec& spec = *parameter.spec;
  const secure::Bytes32 key =
      secure::derive(key_, concat("noise ", spec.tied_to.empty() ? spec.name : spec.tied_to));
  const float* sum = parameter.slot(kExamplesSlot).as<float>();
  float* gradient = parameter.gradient.as<float>();
  std::array<double, 256> noise;
  for (std::int64_t begin = 0; begin < parameter.elements(); begin += std::ssize(noise)) {
    const auto count = std::min<std::int64_t>(std::ssize(noise), parameter.elements() - begin);
    secure::fill_noise(key, static_cast<std::uint64_t>(begin),
                       std::span(noise).first(static_cast<std::size_t>(count)));
    for (std::int64_t i = 0; i < count; ++i)
      gradient[begin + i] = static_cast<float>(
          (sum[begin + i] + deviation_ * noise[static_cast<std::size_t>(i)]) / batch_);
  }
}

ExampleSteps::ExampleSteps(const Config& config, const ClientData& clients,
                           comm::Communicator& world, RunOptimizer& optimizer)
    : config_(config), clients_(clients), world_(world), optimizer_(config, optimizer) {}

const secure::Bytes32& ExampleSteps::secret() {
  if (!secret_) secret_ = run_secret(config_, world_);
  return *secret_;
}

std::vector<std::int64_t> ExampleSteps::drawn(const secure::Bytes32& key, std::int64_t examples,
                                              double chance) {
  const secure::Bytes32 draws = secure::derive(key, "who takes part");
  std::vector<std::uint64_t> words(static_cast<std::size_t>(examples));
  secure::fill_stream(draws, 0, words);
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < examples; ++i)
    if (static_cast<double>(words[static_cast<std::size_t>(i)] >> 11) * 0x1p-53 < chance)
      chosen.push_back(i);
  return chosen;
}

engine::StepResult ExampleSteps::run(const Of& of, engine::Device& device, BatchSource& source,
                                     bool stop) {
  const secure::Bytes32 key = secure::derive(
      secret(), concat("examples, client ", of.client, ", round ", of.round, ", step ", of.step));
  const std::int64_t examples = clients_.windows_of(of.client);
  std::vector<std::int64_t> chosen = drawn(
      key, examples, static_cast<double>(config_.train.batch) / static_cast<double>(examples));
  const bool counts = !chosen.empty();
  if (!counts) chosen.push_back(0);
  engine::StepResult mean;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    optimizer_.begin({.first = i == 0, .last = i + 1 == chosen.size(), .counts = counts}, key);
    source.begin_batch_of(clients_, of.client, chosen[i]);
    const engine::StepResult one = device.executor().run({.source = &source,
                                                          .optimizer = &optimizer_,
                                                          .loss_scale = source.loss_scale(),
                                                          .stop = stop});
    mean.loss += one.loss / static_cast<double>(chosen.size());
    mean.gradient_norm += one.gradient_norm / static_cast<double>(chosen.size());
    mean.stop = mean.stop || one.stop;
  }
  return mean;
}

namespace {

secure::NoisyRounds noisy_steps(const Config& config, std::int64_t examples) {
  return {.noise = config.edge.example_noise,
          .rate = static_cast<double>(config.train.batch) / static_cast<double>(examples),
          .delta = config.edge.delta};
}

/// [client] how often it answers in the first `rounds`.
std::vector<std::int64_t> answers_in(const Config& config, std::int64_t rounds) {
  std::vector<std::int64_t> answers(static_cast<std::size_t>(config.edge.client_count()));
  for (std::int64_t round = 0; round < rounds; ++round)
    for (const int client : clients_of_round(config, round).answering())
      ++answers[static_cast<std::size_t>(client)];
  return answers;
}

std::string name_of_client(const Config& config, int client) {
  const std::vector<int> owners = config.edge.with_role(edge::Role::Client);
  return owners.empty()
             ? concat("client ", client)
             : config.edge
                   .owners[static_cast<std::size_t>(owners[static_cast<std::size_t>(client)])]
                   .name;
}

}  // namespace

double example_privacy_spent(const Config& config, const ClientData& clients, std::int64_t rounds) {
  if (!config.edge.by_example()) return 0;
  double most = 0;
  const std::vector<std::int64_t> answers = answers_in(config, rounds);
  for (int client = 0; client < clients.clients(); ++client) {
    const std::int64_t examples = clients.windows_of(client);
    const std::int64_t steps =
        answers[static_cast<std::size_t>(client)] * local_steps(config, examples);
    most = std::max(most, secure::epsilon_after(steps, noisy_steps(config, examples)));
  }
  return most;
}

void check_examples(const Config& config, const ClientData& clients) {
  const EdgeConfig& edge = config.edge;
  if (!edge.by_example()) return;
  const std::vector<std::int64_t> answers = answers_in(config, config.train.steps);
  for (int client = 0; client < clients.clients(); ++client) {
    const std::int64_t examples = clients.windows_of(client);
    require(config.train.batch <= examples, name_of_client(config, client), " has ", examples,
            " examples, and with edge.example_noise a step takes train.batch ", config.train.batch,
            " of them in the mean; lower it, or give it more data");
    if (edge.epsilon == 0) continue;
    const std::int64_t each = local_steps(config, examples);
    const std::int64_t steps = answers[static_cast<std::size_t>(client)] * each;
    const secure::NoisyRounds how = noisy_steps(config, examples);
    const double cost = secure::epsilon_after(steps, how);
    require(cost <= edge.epsilon, "edge.epsilon is ", edge.epsilon, ", and ", steps, " steps of ",
            name_of_client(config, client), " with edge.example_noise ", edge.example_noise,
            " cost ", cost, "; take at most ", secure::rounds_within(edge.epsilon, how) / each,
            " rounds, or more noise, or a smaller train.batch");
  }
}

}  // namespace cleave::train
