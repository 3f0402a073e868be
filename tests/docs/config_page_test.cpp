// docs/config.md is what the program says of its keys.

#include <fstream>
#include <iterator>

#include "support/paths.h"
#include <gtest/gtest.h>

#include "cleave/train/config/config_reference.h"

namespace cleave {
namespace {

TEST(ConfigPage, IsMadeFromTheTableOfKeys) {
  std::ifstream file(testing::source_path("docs/config.md"));
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(page, train::config_reference())
      << "make it anew: build/release/cleave reference config > docs/config.md";
}

}  // namespace
}  // namespace cleave
