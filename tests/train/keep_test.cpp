// State that is found in the memory of devices and moved between them.

#include <numeric>

#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/train/keep/moving.h"
#include "cleave/train/keep/sources.h"

namespace cleave::train {
namespace {

constexpr std::int64_t kElements = 30;

TensorRun run_of(std::int64_t first, std::int64_t length, std::int64_t at) {
  return {-1, 0, first, length, at};
}

/// What element `index` of the tensor is after `step` steps.
float element(std::int64_t step, std::int64_t index) {
  return static_cast<float>(1000 * step + index);
}

/// Elements [first, end) of the tensor, of which there is one, after `step` steps.
struct Share {
  std::int64_t step, first, end;
};

KeptState kept_of(const std::vector<Share>& shares) {
  KeptState kept;
  for (const Share& share : shares) {
    const std::int64_t count = share.end - share.first;
    auto arena = std::make_shared<Arena>(count * static_cast<std::int64_t>(sizeof(float)));
    const std::span memory(reinterpret_cast<float*>(arena->at(0)), static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      memory[static_cast<std::size_t>(i)] = element(share.step, share.first + i);
    const std::vector<Stripe> stripes = stripes_of(std::vector{run_of(share.first, count, 0)});
    kept.keep(std::move(arena), {{share.step, image_in(stripes, memory)}});
  }
  return kept;
}

TEST(Stripes, JoinRunsThatFollowEachOtherEvenly) {
  const std::vector<TensorRun> runs = {run_of(4, 3, 0), run_of(14, 3, 8), run_of(24, 3, 16),
                                       run_of(27, 3, 30)};

  const std::vector<Stripe> stripes = stripes_of(runs);

  ASSERT_EQ(stripes.size(), 2u);
  EXPECT_EQ(stripes[0], (Stripe{.part = -1,
                                .parameter = 0,
                                .first = 4,
                                .length = 3,
                                .stride = 10,
                                .count = 3,
                                .at = 0,
                                .pitch = 8}));
  EXPECT_EQ(stripes_in(to_bytes(stripes)), stripes);
  std::vector<std::int64_t> places;
  for (const Stripe& stripe : stripes)
    for_each_run(stripe, [&](const TensorRun& run) { places.push_back(run.at); });
  EXPECT_EQ(places, (std::vector<std::int64_t>{0, 8, 16, 30}));
}

TEST(StateSources, KnowWhetherEveryElementExists) {
  const auto stripes = [](std::int64_t first, std::int64_t length) {
    return stripes_of(std::vector{run_of(first, length, 0)});
  };
  const std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> sizes = {{{-1, 0}, 30}};
  EXPECT_TRUE(StateSources({stripes(0, 12), stripes(10, 20)}).has(sizes));
  EXPECT_FALSE(StateSources({stripes(0, 9), stripes(10, 20)}).has(sizes));
  EXPECT_FALSE(StateSources({stripes(0, 12), stripes(10, 19)}).has(sizes));
  EXPECT_FALSE(StateSources({{}, {}}).has(sizes));
}

TEST(StateSources, PreferWhatTheTakerHasItself) {
  const auto stripes = [](std::int64_t first, std::int64_t length) {
    return stripes_of(std::vector{run_of(first, length, 0)});
  };
  const StateSources sources({stripes(0, 30), stripes(10, 5)});
  std::vector<std::pair<std::size_t, std::int64_t>> found;
  sources.find(run_of(8, 10, 0), 1,
               [&](std::size_t holder, std::int64_t first, std::int64_t, std::int64_t) {
                 found.emplace_back(holder, first);
               });
  EXPECT_EQ(found, (std::vector<std::pair<std::size_t, std::int64_t>>{{0, 8}, {1, 10}, {0, 15}}));
}

/// Every member wants all of the tensor, every second element of which it gets as a stripe.
void take_all(comm::Communicator& world, const KeptState& kept, std::int64_t least,
              std::optional<std::int64_t> expected) {
  const StateSizes sizes = {{{-1, 0}, kElements}};
  const std::optional<MovedState> state = find_state(world, kept, sizes, least);
  ASSERT_EQ(state.has_value(), expected.has_value());
  if (!state) return;
  EXPECT_EQ(state->step, *expected);
  std::vector<float> memory(kElements);
  std::vector<TensorRun> wanted;
  for (std::int64_t i = 0; i < kElements; i += 2) wanted.push_back(run_of(i, 1, i / 2));
  for (std::int64_t i = 1; i < kElements; i += 2)
    wanted.push_back(run_of(i, 1, kElements / 2 + i / 2));
  move_state(world, *state, kept, image_in(stripes_of(wanted), memory));
  for (const TensorRun& run : wanted)
    EXPECT_EQ(memory[static_cast<std::size_t>(run.at)], element(*expected, run.first));
}

TEST(MovedState, IsTheNewestThatIsWhole) {
  // After step 7 somebody is missing; after step 6 a copy stands in for him, and one has nothing.
  const std::vector<std::vector<Share>> shares = {
      {{7, 0, 10}, {6, 0, 10}, {6, 20, 30}}, {{7, 10, 20}, {6, 10, 20}}, {}, {{5, 0, 30}}};
  comm::run_devices(4, [&](comm::Communicator& world) {
    const KeptState kept = kept_of(shares[static_cast<std::size_t>(world.rank())]);
    take_all(world, kept, 0, 6);
    take_all(world, kept, 6, 6);
    take_all(world, kept, 7, std::nullopt);
  });
}

TEST(MovedState, IsNowhereIfNobodyKeptAnything) {
  comm::run_devices(
      3, [&](comm::Communicator& world) { take_all(world, KeptState(), 0, std::nullopt); });
}

TEST(KeptState, GoesIfThereIsNoRoomForItBesideANewPlan) {
  KeptState kept = kept_of({{1, 0, 10}, {2, 0, 10}});
  kept.make_room_for(1000, 1080);
  EXPECT_EQ(kept.versions().size(), 2u);
  kept.make_room_for(1000, 1079);
  EXPECT_TRUE(kept.versions().empty());
}

}  // namespace
}  // namespace cleave::train
