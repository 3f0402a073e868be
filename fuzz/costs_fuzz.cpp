#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "schedule/cost_flags.h"

#include "cleave/base/check.h"

// Whatever --cost and a costs file say, the costs are finite and not negative, or a UserError.

namespace {

void check(const cleave::plan::UniformCosts& costs) {
  for (const double cost : {costs.f, costs.i, costs.w, costs.comm})
    if (!std::isfinite(cost) || cost < 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    check(cleave::app::parse_uniform_costs(text));
  } catch (const cleave::UserError&) {
  }
  try {
    for (const auto& row : cleave::app::parse_stage_costs(text, "fuzz")) check(row);
  } catch (const cleave::UserError&) {
  }
  return 0;
}
