// Clients in order against the same round played by hand: each turn is a run of its own, which
// begins with the clients' first layers and with the server's as the turn before left them.

#include <map>

#include "support/temporary_directory.h"
#include "train/tiny_config.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/train/step/cuts.h"
#include "cleave/train/step/round_slots.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

using Numbers = std::map<std::string, std::vector<float>>;  ///< by tensor, and by tensor.slot

/// Plain momentum: no update depends on how many came before it.
std::string tables(const testing::TemporaryDirectory& directory) {
  std::string text =
      "[model]\nlayers = 4\nhidden = 32\nheads = 4\n[train]\nsteps = 1\nbatch = 4\nsequence = 16\n"
      "lr = 1e-2\nschedule = \"constant\"\nwarmup = 0\noptimizer = \"sgd\"\nmomentum = 0.9\n"
      "[edge]\nsync_every = 2\nin_order = true\ncentral = true\nweights = \"equal\"\n";
  for (const std::string name : {"a", "b"}) {
    std::string own;
    for (unsigned i = 0, x = name == "a" ? 3 : 5; i < 800; ++i, x = x * 1664525 + 1013904223)
      own += static_cast<char>('a' + (x >> 24) % (name == "a" ? 7 : 11));
    text += "[[edge.owner]]\nname = \"" + name + "\"\nlayers = [1, 1]\ndata = \"" +
            directory.write(name + ".txt", own) + "\"\n";
  }
  return text + "[[edge.owner]]\nname = \"hub\"\nrole = \"server\"\n";
}

Numbers state_of(const engine::Device& device) {
  Numbers all;
  for (const engine::TensorState& tensor : device.tensors()) {
    const auto read = [&](const std::string& name, View part) {
      tensor.for_each_run(part, [&](std::int64_t, std::span<float> run) {
        all[name].insert(all[name].end(), run.begin(), run.end());
      });
    };
    read(tensor.name, tensor.master);
    for (const engine::SlotState& slot : tensor.slots)
      if (is_inner(slot.name)) read(tensor.name + "." + std::string(slot.name), slot.values);
  }
  return all;
}

struct Round {
  Numbers before, after;
  std::set<std::string> server;  ///< tensors
};

/// The first round of a run; `absent` takes no part, and the server's layers begin as in `shared`.
Round play(const testing::TemporaryDirectory& directory, const std::string& absent,
           const Numbers& shared = {}) {
  std::vector<std::string> keys;
  if (!absent.empty()) keys.push_back("edge.absent=[\"" + absent + " 1\"]");
  const Config config = testing::config_with(keys, tables(directory));
  const data::Data data(data_query(config));
  const std::optional<ClientData> clients = client_data(config, data);
  const engine::CompiledStep compiled = compile_step(config);
  comm::LocalWorld one(1);
  const std::unique_ptr<comm::Communicator> world = one.join(0);
  Trainer trainer(config, {.data = &data, .clients = &*clients}, compiled, 0, *world);
  trainer.initialise();
  Round round{.before = state_of(trainer.device()),
              .server = shared_part(config, compiled.model).tensors};
  for (const engine::TensorState& tensor : trainer.device().tensors()) {
    if (shared.empty() || !round.server.contains(tensor.name)) continue;
    const auto write = [&](const std::string& name, View part) {
      tensor.set_runs(part, [&](std::int64_t first, std::span<float> run) {
        std::copy_n(shared.at(name).begin() + first, run.size(), run.begin());
      });
    };
    write(tensor.name, tensor.master);
    for (const engine::SlotState& slot : tensor.slots)
      if (is_inner(slot.name)) write(tensor.name + "." + std::string(slot.name), slot.values);
  }
  trainer.device().refresh_values();
  trainer.step();
  round.after = state_of(trainer.device());
  return round;
}

TEST(InOrderTurns, AreTheTurnsOfEachClientAtWhatTheOneBeforeLeft) {
  const testing::TemporaryDirectory directory;
  const Round first = play(directory, "b");
  const Round second = play(directory, "a", first.after);

  const Round both = play(directory, "");

  ASSERT_FALSE(both.server.empty());
  int compared = 0;
  for (const auto& [name, now] : both.after) {
    const std::string tensor = name.ends_with(".momentum") ? name.substr(0, name.size() - 9) : name;
    if (both.server.contains(tensor)) {
      EXPECT_EQ(now, second.after.at(name)) << name << " is the server's, as b left it";
      EXPECT_NE(now, first.after.at(name)) << name;
      ++compared;
    } else if (tensor == name) {
      std::vector<float> mean;
      for (std::size_t i = 0; i < now.size(); ++i) {
        const float start = both.before.at(name)[i];
        const double sum = static_cast<double>(first.after.at(name)[i]) - start +
                           (static_cast<double>(second.after.at(name)[i]) - start);
        mean.push_back(static_cast<float>(start + sum / 2));
      }
      EXPECT_EQ(now, mean) << name << " is the mean of what both made of it";
      ++compared;
    }
  }
  EXPECT_GT(compared, 40);
}

TEST(InOrderTurns, BeginWithTheServersLayersOfNobodyElse) {
  const testing::TemporaryDirectory directory;
  const Round first = play(directory, "b");

  const Round alone = play(directory, "a");
  const Round second = play(directory, "a", first.after);

  EXPECT_EQ(alone.before, second.before);
  EXPECT_NE(alone.after, second.after) << "what a left in the server's layers reaches b";
}

}  // namespace
}  // namespace cleave::train
