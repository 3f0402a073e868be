// Rounds that average a part of the model each.

#include "cleave/train/step/fragments.h"

#include <map>

#include "support/temporary_directory.h"
#include "train/tiny_config.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

using Weights = std::map<std::string, std::vector<float>>;

/// [round] the weights of all after it, the first ones before any, and whose fragment each is.
struct Played {
  std::vector<Weights> after;
  std::map<std::string, std::int64_t> fragment_of;
};

Played play(int clients, int fragments, int rounds) {
  const testing::TemporaryDirectory directory;
  std::string text;
  for (unsigned i = 0, x = 3; i < 900; ++i, x = x * 1664525 + 1013904223)
    text += static_cast<char>('a' + (x >> 24) % 9);
  const Config config = testing::config_with(
      {"data.path=" + directory.write("text.txt", text), "train.out=" + directory.path("out"),
       "edge.clients=" + std::to_string(clients), "edge.fragments=" + std::to_string(fragments),
       "train.steps=" + std::to_string(rounds)},
      "[model]\nlayers = 4\nhidden = 32\nheads = 4\n[train]\nbatch = 4\nsequence = 16\nlr = 1e-2\n"
      "schedule = \"constant\"\nwarmup = 0\n[edge]\nsync_every = 2\nkeep_slots = true\n");
  const data::Data data(data_query(config));
  const std::optional<ClientData> shares = client_data(config, data);
  const engine::CompiledStep compiled = compile_step(config);
  comm::LocalWorld one(1);
  const std::unique_ptr<comm::Communicator> world = one.join(0);
  Trainer trainer(config, {.data = &data, .clients = &*shares}, compiled, 0, *world);
  trainer.initialise();
  const Fragments parts(config, compiled.model);
  Played played;
  for (int round = 0; round <= rounds; ++round) {
    if (round > 0) trainer.step();
    Weights& weights = played.after.emplace_back();
    for (const engine::TensorState& tensor : trainer.device().tensors()) {
      played.fragment_of[tensor.name] = parts.fragment_of(tensor.name);
      tensor.for_each_weight_run([&](std::int64_t, std::span<float> run) {
        weights[tensor.name].insert(weights[tensor.name].end(), run.begin(), run.end());
      });
    }
  }
  return played;
}

TEST(FragmentsOfRounds, AreThoseOfAClientThatTrainsOn) {
  const int rounds = 5;
  const Played whole = play(1, 1, rounds);
  const Played parts = play(1, 3, rounds);

  for (int round = 0; round <= rounds; ++round) {
    for (const auto& [name, weights] : parts.after[round]) {
      // The last round up to this one that averaged the tensor's fragment, from 1; 0: none did.
      int last = round;
      while (last > 0 && (last - 1) % 3 != parts.fragment_of.at(name)) --last;
      EXPECT_EQ(weights, whole.after[last].at(name)) << name << " after round " << round;
    }
  }
}

TEST(FragmentsOfRounds, ChangeNothingElseAndBringClientsTogether) {
  const Played parts = play(3, 2, 4);

  for (int round = 1; round <= 4; ++round)
    for (const auto& [name, weights] : parts.after[round]) {
      const bool averaged = parts.fragment_of.at(name) == (round - 1) % 2;
      EXPECT_EQ(weights != parts.after[round - 1].at(name), averaged) << name << " " << round;
    }
  EXPECT_NE(play(3, 1, 4).after.back(), parts.after.back());
}

}  // namespace
}  // namespace cleave::train
