#include "cleave/base/shallow_json.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using nlohmann::json;

std::string lists(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(ShallowJson, NestsNoDeeperThanItsLimit) {
  EXPECT_TRUE(parse_shallow<json>(lists(kDeepestJson)).is_array());
  EXPECT_THROW(parse_shallow<json>(lists(kDeepestJson + 1)), std::invalid_argument);
  EXPECT_TRUE(parse_shallow_or_discard<json>(lists(kDeepestJson)).is_array());
  EXPECT_TRUE(parse_shallow_or_discard<json>(lists(1'000'000)).is_discarded());
  EXPECT_TRUE(parse_shallow_or_discard<json>("[1").is_discarded());
  EXPECT_THROW(parse_shallow<json>("[1"), json::exception);
}

TEST(ShallowJson, CountsNoBracketsInTexts) {
  const std::string brackets(100, '{');
  EXPECT_EQ(parse_shallow<json>("[\"" + brackets + "\\\"" + brackets + "\"]")[0],
            brackets + "\"" + brackets);
}

}  // namespace
}  // namespace cleave
