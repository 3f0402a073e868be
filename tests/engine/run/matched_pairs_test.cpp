// Two layouts that differ in one thing: which of them plans fewer bytes.

#include <string>
#include <vector>

#include "engine/run/unpadded_model.h"
#include <gtest/gtest.h>

#include "cleave/engine/compile/compile.h"

namespace cleave::engine {
namespace {

using schedule::Recompute;
using testing::unpadded_model;

struct Pipeline {
  std::string schedule;
  int devices = 1;
  int chunks = 0;
  int microbatches = 1;
};

std::vector<Pipeline> pipelines() {
  std::vector<Pipeline> all;
  for (const int microbatches : {1, 5}) {
    for (const char* schedule : {"1f1b", "gpipe", "zb-h1"}) {
      all.push_back({schedule, 1, 0, microbatches});
      all.push_back({schedule, 2, 0, microbatches});
    }
    for (const char* schedule : {"looped-bfs", "interleaved", "zbv", "v-min"})
      all.push_back({schedule, 2, 0, microbatches});
    all.push_back({"looped-bfs", 1, 6, microbatches});
  }
  return all;
}

/// Compares the planned bytes of every device between settings of a layout.
class MatchedPairs : public ::testing::Test {
 protected:
  using Set = void (*)(Layout&);
  using Counts = bool (*)(const Pipeline&, std::size_t device);
  using Peaks = std::vector<std::int64_t>;

  static Peaks peaks(Layout layout, const Pipeline& p, Set set) {
    layout.pipeline = p.devices;
    layout.schedule = p.schedule;
    layout.chunks = p.chunks;
    set(layout);
    // More blocks on a device than ZeRO 3 gathers at a time.
    return compile(unpadded_model(&model::gpt, 8),
                   {.layout = layout, .microbatches = p.microbatches})
        .planned_bytes;
  }

  void expect_less(
      const Layout& common, Set less, Set more, bool may_equal = false,
      Counts counts = [](const Pipeline&, std::size_t) { return true; }) {
    for (const Pipeline& p : pipelines()) {
      const Peaks low = peaks(common, p, less);
      const Peaks high = peaks(common, p, more);
      for (std::size_t d = 0; d < low.size(); ++d) {
        if (!counts(p, d)) continue;
        EXPECT_TRUE(low[d] < high[d] || (may_equal && low[d] == high[d]))
            << low[d] << " and " << high[d] << ": " << p.schedule << ", pipeline " << p.devices
            << ", " << p.microbatches << " microbatches, device " << d;
      }
    }
  }
};

TEST_F(MatchedPairs, SharingMoreTakesLess) {
  const Layout replicas{.data = 4};
  constexpr Set kZero[] = {[](Layout& l) { l.zero = 0; }, [](Layout& l) { l.zero = 1; },
                           [](Layout& l) { l.zero = 2; }, [](Layout& l) { l.zero = 3; }};
  expect_less(replicas, kZero[3], kZero[2]);
  expect_less(replicas, kZero[2], kZero[1], true);
  expect_less(replicas, kZero[1], kZero[0]);
}

// Where every I follows its F at once and its W later, there is nothing to gain: on the last device
// of a pipeline whose backward is split, and with one microbatch.
TEST_F(MatchedPairs, ComputingMoreAgainTakesLess) {
  const Counts counts = [](const Pipeline& p, std::size_t device) {
    const bool split = p.schedule == "zb-h1" || p.schedule == "zbv" || p.schedule == "v-min";
    return !split || (device + 1 < static_cast<std::size_t>(p.devices) && p.microbatches > 1);
  };
  constexpr Set kFull = [](Layout& l) { l.recompute = {Recompute::Full}; };
  constexpr Set kSelective = [](Layout& l) { l.recompute = {Recompute::Selective}; };
  expect_less({}, kFull, kSelective, false, counts);
  expect_less(
      {}, kSelective, [](Layout&) {}, false, counts);
}

TEST_F(MatchedPairs, DividingTokensTakesLess) {
  for (const int tensor : {2, 4})
    expect_less(
        {.tensor = tensor}, [](Layout& l) { l.sequence_parallel = true; }, [](Layout&) {});
}

}  // namespace
}  // namespace cleave::engine
