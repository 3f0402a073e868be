#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cleave/plan/time/simulator.h"
#include "cleave/schedule/generators.h"

// What the papers say about bubbles and memory, over all shapes up to 8 x 24. Costs are small
// integers and halves, so every comparison is exact.

namespace cleave::schedule {
namespace {

using plan::UniformCosts;

constexpr UniformCosts kCosts[] = {
    {.f = 6, .i = 6, .w = 6}, {.f = 18, .i = 12, .w = 6}, {.f = 12, .i = 18, .w = 12}};

class Timed {
 public:
  Timed(std::string_view schedule, const PipelineShape& shape)
      : program_(generate(schedule, shape)) {}

  const std::string& name() const { return program_.schedule; }
  double cost(const UniformCosts& costs) const {
    const auto trace = plan::simulate(program_, plan::uniform_costs(program_, costs),
                                      {.record = plan::Record::DevicesOnly});
    return plan::summarise(program_, trace).cost;
  }

 private:
  Program program_;
};

double cost(std::string_view schedule, const PipelineShape& shape, const UniformCosts& costs) {
  return Timed(schedule, shape).cost(costs);
}

double bubble(std::string_view schedule, const PipelineShape& shape, const UniformCosts& costs) {
  return cost(schedule, shape, costs) - shape.microbatches * (costs.f + costs.i + costs.w);
}

double peak(std::string_view schedule, const PipelineShape& shape) {
  return std::ranges::max(plan::peak_activations(generate(schedule, shape)));
}

template <class Check>
void for_all_shapes(Check check) {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= 24; ++m) {
      SCOPED_TRACE(std::to_string(p) + " x " + std::to_string(m));
      check(PipelineShape{.devices = p, .microbatches = m});
    }
}

TEST(ClosedForms, BubbleOfGpipeAndOneFOneB) {
  for_all_shapes([](const PipelineShape& shape) {
    for (const UniformCosts& c : kCosts)
      for (const char* schedule : {"gpipe", "1f1b"})
        EXPECT_EQ(bubble(schedule, shape, c), (shape.devices - 1) * (c.f + c.i + c.w)) << schedule;
  });
}

TEST(ClosedForms, ChunksDivideTheBubble) {
  for_all_shapes([](PipelineShape shape) {
    const int p = shape.devices;
    for (shape.chunks = 1; shape.chunks <= 3; ++shape.chunks)
      for (const UniformCosts& c : kCosts) {
        const double expected = (p - 1) * (c.f + c.i + c.w) / shape.chunks;
        if (shape.microbatches % p == 0) {
          EXPECT_EQ(bubble("interleaved-lean", shape, c), expected);
        }
        if (shape.microbatches >= p) {
          EXPECT_EQ(bubble("interleaved", shape, c), expected);
          EXPECT_EQ(bubble("looped-bfs", shape, c), expected);
        }
      }
  });
}

TEST(ClosedForms, BubbleOfZeroBubbleSchedules) {
  for_all_shapes([](const PipelineShape& shape) {
    const int p = shape.devices;
    for (const UniformCosts& c : kCosts) {
      if (shape.microbatches >= p) {
        EXPECT_EQ(bubble("zb-h1", shape, c), (p - 1) * (c.f + c.i - c.w));
      }
      if (shape.microbatches >= 2 * p - 1) {
        EXPECT_EQ(bubble("zb-h2", shape, c), (p - 1) * (c.f + c.i - 2 * c.w));
      }
    }
  });
}

TEST(ClosedForms, ZbvHasNoBubbleFromTwiceTheDevicesOn) {
  for_all_shapes([](const PipelineShape& shape) {
    const int missing = std::max(2 * shape.devices - 1 - shape.microbatches, 0);
    EXPECT_EQ(bubble("zbv", shape, {.f = 6, .i = 6, .w = 6}), 6 * missing);
  });
}

// One action of a chunk takes 3; 1F1B has a bubble of 18 (p - 1).
TEST(ClosedForms, BubbleOfTheSmallVSchedulesIfAllIsEqual) {
  constexpr UniformCosts kEqual = {.f = 6, .i = 6, .w = 6};
  for_all_shapes([&](const PipelineShape& shape) {
    const int p = shape.devices;
    if (p == 1 || shape.microbatches < p) return;
    EXPECT_EQ(bubble("v-half", shape, kEqual), 3 * (p % 2 == 0 ? 3.5 * p - 2 : 3.5 * (p - 1)));
    EXPECT_EQ(bubble("v-min", shape, kEqual), 3 * (p % 3 == 0 ? 4 * p - 3 : 4 * p - 5));
  });
}

// Every order of F, I and W by length, W far above the others included.
template <class Check>
void for_all_costs(Check check) {
  for (const double f : {1, 4, 10})
    for (const double i : {1, 4, 10})
      for (const double w : {1, 4, 10, 30}) {
        SCOPED_TRACE(::testing::Message() << "f=" << f << ",i=" << i << ",w=" << w);
        check(UniformCosts{.f = f, .i = i, .w = w});
      }
}

TEST(ClosedForms, NothingCostsMoreThanOneFOneB) {
  for_all_shapes([](const PipelineShape& shape) {
    const Timed one_f_one_b("1f1b", shape);
    std::vector<Timed> others;
    for (const char* schedule : {"gpipe", "interleaved", "interleaved-lean", "looped-bfs", "zb-h1",
                                 "zb-h2", "zbv", "dualpipev"})
      others.emplace_back(schedule, shape);
    for_all_costs([&](const UniformCosts& c) {
      const double most = one_f_one_b.cost(c);
      for (const Timed& other : others) EXPECT_LE(other.cost(c), most) << other.name();
    });
  });
}

// Chunks send every microbatch over more edges; these do not.
TEST(ClosedForms, MessagesDoNotMakeZeroBubbleSchedulesCostMore) {
  for_all_shapes([](const PipelineShape& shape) {
    const Timed one_f_one_b("1f1b", shape);
    const Timed h1("zb-h1", shape);
    const Timed h2("zb-h2", shape);
    for_all_costs([&](UniformCosts c) {
      c.comm = 2;
      EXPECT_LE(h1.cost(c), one_f_one_b.cost(c));
      EXPECT_LE(h2.cost(c), one_f_one_b.cost(c));
    });
  });
}

// Where F, I and W differ, these trade time for memory.
TEST(ClosedForms, SmallVSchedulesCostNoMoreThanOneFOneBIfAllIsEqual) {
  for_all_shapes([](const PipelineShape& shape) {
    for (const char* schedule : {"v-half", "v-min"})
      EXPECT_LE(cost(schedule, shape, kCosts[0]), cost("1f1b", shape, kCosts[0])) << schedule;
  });
}

TEST(ClosedForms, PeakActivations) {
  for_all_shapes([](const PipelineShape& shape) {
    const int p = shape.devices;
    const int m = shape.microbatches;
    EXPECT_EQ(peak("gpipe", shape), m);
    EXPECT_EQ(peak("looped-bfs", shape), m);
    EXPECT_EQ(peak("zb-h1", shape), std::min(p, m));
    EXPECT_EQ(peak("zb-h2", shape), std::min(2 * p - 1, m));
    EXPECT_EQ(peak("zbv", shape), std::min(p, m));
    EXPECT_EQ(peak("v-half", shape), std::min((p + 2) / 2, m));
    EXPECT_EQ(peak("v-min", shape), std::min((p + 4) / 3, m));
    EXPECT_EQ(peak("dualpipev", shape), std::min(p + 0.5, static_cast<double>(m)));
    const auto peaks = plan::peak_activations(generate("1f1b", shape));
    for (int d = 0; d < p; ++d) EXPECT_EQ(peaks[d], std::min(p - d, m)) << "device " << d;
  });
}

// torch's Interleaved1F1B, from its rules: rounds of m / max(1, m / p) microbatches, which must be
// whole; a device runs so many forwards ahead; k counts its forwards, and its backwards.
Program interleaved_of_torch(const PipelineShape& shape) {
  Program program = generate("looped-bfs", shape);  // for all but the lists
  program.schedule = "interleaved";
  const int p = shape.devices;
  const int v = shape.chunks;
  const int round = shape.microbatches / std::max(1, shape.microbatches / p);
  const int all = shape.microbatches * v;
  for (int d = 0; d < p; ++d) {
    const auto action = [&](Op op, int k) {
      const int turn = k / round % v;
      const int chunk = op == Op::Forward ? turn : v - 1 - turn;
      const int microbatch = k / (round * v) * round + k % round;
      return Instruction{.op = op, .stage = chunk * p + d, .microbatch = microbatch};
    };
    const int ahead = std::min((v - 1) * round + 2 * (p - 1 - d), all);
    auto& list = program.lists[d];
    list.clear();
    for (int k = 0; k < ahead; ++k) list.push_back(action(Op::Forward, k));
    for (int k = 0; k < all; ++k) {
      if (k + ahead < all) list.push_back(action(Op::Forward, k + ahead));
      list.push_back(action(Op::Backward, k));
    }
  }
  return program;
}

TEST(ClosedForms, InterleavedIsTheOrderOfTorchWhereTorchHasOne) {
  for_all_shapes([](PipelineShape shape) {
    const int rounds = std::max(1, shape.microbatches / shape.devices);
    for (shape.chunks = 1; shape.chunks <= 4 && shape.microbatches % rounds == 0; ++shape.chunks)
      EXPECT_EQ(generate("interleaved", shape), interleaved_of_torch(shape));
  });
}

TEST(ClosedForms, PeakOfInterleaved) {
  for_all_shapes([](PipelineShape shape) {
    for (shape.chunks = 1; shape.chunks <= 3; ++shape.chunks) {
      const int most = shape.microbatches * shape.chunks;
      const auto expected = [&](int round) {
        const int ahead = 2 * (shape.devices - 1) + (shape.chunks - 1) * round + 1;
        return static_cast<double>(std::min(ahead, most)) / shape.chunks;
      };
      const int rounds = std::max(1, shape.microbatches / shape.devices);
      EXPECT_DOUBLE_EQ(peak("interleaved", shape),
                       expected((shape.microbatches + rounds - 1) / rounds));
      if (shape.microbatches % shape.devices == 0) {
        EXPECT_DOUBLE_EQ(peak("interleaved-lean", shape), expected(shape.devices));
      } else {
        EXPECT_LE(peak("interleaved-lean", shape), expected(shape.devices));
      }
    }
  });
}

TEST(ClosedForms, MemoryOfVSchedulesHoldsForDeepPipelines) {
  for (int p = 1; p <= 64; ++p) {
    const PipelineShape shape{.devices = p, .microbatches = 2 * p + 3};
    EXPECT_EQ(peak("zbv", shape), p);
    EXPECT_EQ(peak("v-half", shape), (p + 2) / 2);
    EXPECT_EQ(peak("v-min", shape), (p + 4) / 3);
  }
}

}  // namespace
}  // namespace cleave::schedule
