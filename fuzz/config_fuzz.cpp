#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "checked.h"

#include "cleave/base/check.h"
#include "cleave/train/config/config.h"

// Whatever a config and an override say, reading them gives a Config or a UserError. A Config that
// was read is written and read back equal. The override is what follows a NUL byte.

namespace {

using namespace cleave;  // NOLINT(google-build-using-namespace)

std::optional<train::Config> read(std::string_view all) {
  const std::size_t end = std::min(all.find('\0'), all.size());
  train::ConfigOptions options;
  if (end < all.size()) options.overrides = {std::string(all.substr(end + 1))};
  // So that most inputs need not begin with a model.
  options.defaults = "model.layers = 2\nmodel.hidden = 8\nmodel.heads = 2\n";
  try {
    return train::parse_config(all.substr(0, end), "fuzz", options);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::Checked<train::Config> configs;
  if (auto config = read({reinterpret_cast<const char*>(data), size})) {
    configs.check_once(std::move(*config), [](const train::Config& read) {
      if (train::parse_config(to_toml(read), "again") != read) std::abort();
    });
  }
  return 0;
}
