#include "cleave/edge/flow.h"

#include <gtest/gtest.h>

#include "cleave/schedule/generators.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/refine.h"

namespace cleave::edge {
namespace {

constexpr std::int64_t kDown = 1000;  // bytes of an activation
constexpr std::int64_t kUp = 100;     // bytes of a gradient

/// Clients with one device each and a server with the rest of every pipeline.
struct World {
  schedule::Program program;
  std::vector<Owner> owners;
  OwnedProgram owned;

  World(const std::string& schedule, int replicas, int microbatches)
      : program(lowered(schedule, replicas, microbatches)) {
    for (int r = 0; r < replicas; ++r) {
      owners.push_back(usual_owner(Role::Client));
      owners.back().name = std::string("clinic-") + static_cast<char>('a' + r);
    }
    owners.push_back(usual_owner(Role::Server));
    owners.back().name = "hub";
    owned = {.program = &program,
             .owner_of = std::vector<int>(program.devices, replicas),
             .stages = std::vector<StageUse>(program.stages),
             .collected = {}};
    for (const auto& list : program.lists) owned.collected.emplace_back(list.size(), 0);
    for (int r = 0; r < replicas; ++r) {
      owned.owner_of[program.placement[0][r]] = r;
      owned.data_of.push_back(r);
      owned.labels_of.push_back(r);
    }
    owned.stages.front().input = "tokens";
    owned.stages.front().input_bytes = 8;
    owned.stages.back().label = "targets";
    owned.stages.back().label_bytes = 4;
  }

  static schedule::Program lowered(const std::string& schedule, int replicas, int microbatches) {
    schedule::Program program =
        schedule::generate(schedule, {.devices = 2, .microbatches = microbatches});
    for (schedule::Edge& edge : program.edges) {
      edge.forward_bytes = kDown;
      edge.backward_bytes = kUp;
    }
    return schedule::lower(std::move(program), {.replicas = replicas});
  }

  /// What every instruction of this kind sends.
  void collect(schedule::Op op, std::int64_t bytes) {
    for (int place = 0; place < program.devices; ++place)
      for (std::size_t i = 0; i < program.lists[place].size(); ++i)
        if (program.lists[place][i].op == op) owned.collected[place][i] = bytes;
  }

  std::vector<Crossing> crossings() {
    owned.owners = owners;
    return flow(owned);
  }
  std::vector<std::string> refused() { return refusals(crossings(), owners); }
};

TEST(Flow, ListsWhatCrossesWhereTheClientHasBothEnds) {
  World world("zbv", 1, 3);

  const std::vector<Crossing> expected = {
      {0,
       {1},
       Class::Activation,
       {0},
       3 * kDown,
       "tokens of clinic-a → 0F on clinic-a → SEND:0>0 → hub"},
      {0,
       {1},
       Class::Gradient,
       {0},
       3 * kUp,
       "targets of clinic-a → 3I on clinic-a → SEND:2<0 → hub"},
      {1,
       {0},
       Class::Activation,
       {0},
       3 * kDown,
       "tokens of clinic-a → 0F on clinic-a → 1F on hub → 2F on hub → SEND:2>0 → clinic-a"},
      {1,
       {0},
       Class::Gradient,
       {0},
       3 * kUp,
       "targets of clinic-a → 3I on clinic-a → 2I on hub → 1I on hub → SEND:0<0 → clinic-a"}};
  EXPECT_EQ(world.crossings(), expected);
  EXPECT_TRUE(world.refused().empty());
}

TEST(Flow, RefusesLabelsThatWouldLeaveWithTheirPath) {
  World world("1f1b", 1, 2);

  const std::vector<std::string> expected = {
      "owner clinic-a does not send label, which would leave it: targets of clinic-a → 1F → hub; "
      "let the client have the last layers too, as in layers = [1, 1], or add \"label\" to what it "
      "sends"};
  EXPECT_EQ(world.refused(), expected);

  world.owners[0].sends = {Class::Label, Class::Activation};
  EXPECT_TRUE(world.refused().empty());
  world.owners[0].sends = {Class::Label};
  EXPECT_EQ(world.refused().size(), 1u) << "an activation leaves as well";
}

TEST(Flow, CountsBytesOfDataThatIsLoadedElsewhere) {
  World world("1f1b", 1, 5);

  const Crossing labels = world.crossings().at(0);
  EXPECT_EQ(labels.what, Class::Label);
  EXPECT_EQ(labels.bytes, 5 * 4);
}

TEST(Flow, TakesLabelsOfTheServerForItsOwn) {
  World world("1f1b", 1, 2);
  world.owned.labels_of = {1};

  EXPECT_TRUE(world.refused().empty());
}

TEST(Flow, CountsAPartWithoutAProductAsWhatItWasGiven) {
  World world("zbv", 1, 1);
  world.owned.stages.front().product = false;
  world.owned.stages.back().product = false;

  const std::vector<std::string> refused = world.refused();
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_NE(refused[0].find("does not send input"), std::string::npos);
  EXPECT_NE(refused[0].find("0F (no product) on clinic-a → SEND:0>0 → hub"), std::string::npos);
  EXPECT_NE(refused[1].find("does not send label"), std::string::npos);
}

TEST(Flow, NamesAllThatASumJoins) {
  World world("zbv", 2, 2);
  world.collect(schedule::Op::Reduce, 32);  // a client has two stages
  world.collect(schedule::Op::Norm, 16);

  const std::vector<Crossing> crossings = world.crossings();
  const auto row = [&](int from, Class what) {
    for (const Crossing& crossing : crossings)
      if (crossing.from == from && crossing.what == what) return crossing;
    return Crossing{.from = -1};
  };
  EXPECT_EQ(row(0, Class::Update).to, std::vector<int>{1}) << "clients add up with clients";
  EXPECT_EQ(row(0, Class::Update).bytes, 64);
  EXPECT_EQ(row(0, Class::Statistic).to, (std::vector<int>{1, 2}));
  EXPECT_EQ(row(2, Class::Update).from, -1) << "the server's devices are one owner's";

  world.owners[1].sends = {Class::Activation, Class::Gradient, Class::Statistic};
  const std::vector<std::string> refused = world.refused();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].rfind("owner clinic-b does not send update", 0), 0u) << refused[0];
}

TEST(Flow, CountsASumForThoseAloneWhoHoldItsStage) {
  World world("1f1b", 2, 2);
  world.program = schedule::lower(
      schedule::refine(schedule::generate("1f1b", {.devices = 2, .microbatches = 2}),
                       {{0, 1, 1}, {0, 0, 1}}),
      {});
  world.owned.owner_of = {0, 2, 1, 2};
  world.owned.stages.assign(3, {});
  world.owned.stages.front().input = "tokens";
  world.owned.collected.clear();
  for (const auto& list : world.program.lists) {
    auto& bytes = world.owned.collected.emplace_back();
    for (const schedule::Instruction& i : list)
      bytes.push_back(i.op == schedule::Op::Reduce ? 10 + i.stage : 0);
  }

  std::vector<Crossing> updates;
  for (const Crossing& crossing : world.crossings())
    if (crossing.what == Class::Update) updates.push_back(crossing);

  const std::vector<Crossing> expected = {
      {0, {1}, Class::Update, {0}, 10, "REDUCE:0 on clinic-a → clinic-b"},
      {1, {0}, Class::Update, {1}, 10, "REDUCE:0 on clinic-b → clinic-a"},
      {1, {2}, Class::Update, {1}, 11, "REDUCE:1 on clinic-b → hub"},
      {2, {1}, Class::Update, {0}, 11, "REDUCE:1 on hub → clinic-b"}};
  EXPECT_EQ(updates, expected) << "stage 1 is the hub's for the one, and the other's own";
}

}  // namespace
}  // namespace cleave::edge
