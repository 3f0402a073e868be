#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "app/run_cleave.h"
#include "support/paths.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024: profiled times in, bubble rates out.
TEST(Published, BubbleRatesOfTheZeroBubblePaperThroughTheProgram) {
  std::ifstream file(testing::source_path("tests/golden/zero_bubble_published.txt"));
  int compared = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream in(line);
    std::string model, p, m, f, i, w, comm;
    in >> model >> p >> m >> f >> i >> w >> comm;
    for (const std::string kind : {"1f1b", "zb-h1", "zb-h2"}) {
      double published = 0;
      in >> published;

      const auto answer = testing::run_cleave("schedule " + kind + " --stages " + p +
                                              " --microbatches " + m + " --cost f=" + f +
                                              ",i=" + i + ",w=" + w + ",comm=" + comm + " --json");

      ASSERT_EQ(answer.exit, 0) << answer.err;
      const auto json = nlohmann::json::parse(answer.out);
      EXPECT_EQ(json["verified"], true);
      EXPECT_EQ(std::round(json["bubble_rate"].get<double>() * 1e4), std::round(published * 1e4))
          << line << ' ' << kind;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 6 * 3);
}

}  // namespace
}  // namespace cleave
