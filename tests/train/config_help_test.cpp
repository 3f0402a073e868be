#include <algorithm>
#include <sstream>

#include "train/tiny_config.h"
#include <gtest/gtest.h>

#include "cleave/train/config/config_reference.h"
#include "cleave/train/config/config_schema.h"

namespace cleave::train {
namespace {

TEST(ConfigHelp, ExplainsEveryKeyInHelp) {
  const std::string help = config_help();
  for (const Key& key : config_keys()) {
    EXPECT_NE(help.find("\n  " + std::string(key.short_name()) + " "), std::string::npos)
        << key.name;
    EXPECT_FALSE(key.help.empty()) << key.name;
  }
}

TEST(ConfigHelp, ShowsTheDefaultOfEveryKeyInHelp) {
  const std::string help = config_help();
  EXPECT_NE(help.find("optimizer updates (a whole number ≥ 0; default 100)\n"), std::string::npos);
  EXPECT_NE(help.find("train.lr / 10)\n"), std::string::npos);
  const Config defaults;
  for (const Key& key : config_keys()) {
    const bool constant = key.get(defaults).has_value();
    EXPECT_TRUE(constant || !key.otherwise.empty()) << key.name << " has no default to show";
  }
}

TEST(ConfigHelp, TakesTheExampleOfEveryKey) {
  for (const Key& key : config_keys()) {
    const std::string text(key.name);
    const std::string section = text.substr(0, text.rfind('.'));
    const auto entries = read_toml(
        "[" + section + "]\n" + text.substr(section.size() + 1) + " = " + example_of(key) + "\n",
        "example");
    Config config;
    ASSERT_EQ(entries.size(), 1u) << key.name;
    EXPECT_NO_THROW(apply(entries[0], config)) << key.name << " = " << example_of(key);
  }
}

TEST(ConfigHelp, KeepsHelpWithinEightyColumns) {
  std::istringstream help(config_help());
  for (std::string line; std::getline(help, line);) {
    const auto columns = std::ranges::count_if(line, [](unsigned char c) { return c >> 6 != 2; });
    EXPECT_LE(columns, 80) << line;
  }
}

}  // namespace
}  // namespace cleave::train
