#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cleave/base/check.h"
#include "cleave/train/config/config.h"

// Whatever a config and an override say, reading them gives a Config or a UserError. A Config that
// was read is written and read back equal. The override is what follows a NUL byte.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cleave;  // NOLINT(google-build-using-namespace)
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(all.find('\0'), all.size());
  train::ConfigOptions options;
  if (end < all.size()) options.overrides = {std::string(all.substr(end + 1))};
  // So that most inputs need not begin with a model.
  options.defaults = "model.layers = 2\nmodel.hidden = 8\nmodel.heads = 2\n";
  try {
    const train::Config config = train::parse_config(all.substr(0, end), "fuzz", options);
    const std::string text = to_toml(config);
    if (train::parse_config(text, "again") != config) std::abort();
  } catch (const UserError&) {
  }
  return 0;
}
