#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "support/paths.h"
#include <gtest/gtest.h>

#include "cleave/plan/time/simulator.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/passes.h"

namespace cleave::schedule {
namespace {

double bubble_rate(const Program& program, const plan::UniformCosts& costs) {
  return plan::summarise(program, plan::simulate(program, plan::uniform_costs(program, costs)))
      .bubble_rate;
}

// The published rates have four decimals; ours must round to the same. The lowered program, with
// its messages, takes as long as the compute with a latency on every edge.
TEST(Published, BubbleRatesOfTheZeroBubblePaper) {
  std::ifstream file(testing::source_path("tests/golden/zero_bubble_published.txt"));
  int rows = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream in(line);
    std::string model;
    PipelineShape shape;
    plan::UniformCosts costs;
    in >> model >> shape.devices >> shape.microbatches >> costs.f >> costs.i >> costs.w >>
        costs.comm;
    for (const char* schedule : {"1f1b", "zb-h1", "zb-h2"}) {
      double published = 0;
      in >> published;
      const Program program = generate(schedule, shape);

      EXPECT_EQ(std::round(bubble_rate(program, costs) * 1e4), std::round(published * 1e4))
          << line << ' ' << schedule;
      EXPECT_DOUBLE_EQ(bubble_rate(lower(program, {}), costs), bubble_rate(program, costs));
    }
    ASSERT_TRUE(in) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 6);
}

}  // namespace
}  // namespace cleave::schedule
