#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "cleave/base/check.h"

namespace cleave {

/// The whole number that a value of JSON (nlohmann's) is. The library itself turns any number into
/// any type: 2^32 into an int of 0, and what 1e30 becomes is undefined. Throws UserError on a
/// number that is not whole or that T does not hold, and what the library throws on anything else.
template <std::integral T, class Json>
T whole_number(const Json& value) {
  if (value.is_number_unsigned()) {
    if (const auto number = value.template get<std::uint64_t>(); std::in_range<T>(number))
      return static_cast<T>(number);
  } else if (value.is_number_integer()) {
    if (const auto number = value.template get<std::int64_t>(); std::in_range<T>(number))
      return static_cast<T>(number);
  }
  if (!value.is_number()) (void)value.template get<typename Json::number_integer_t>();
  throw UserError(detail::concat(value.dump(), " stands where a whole number from ",
                                 std::numeric_limits<T>::min(), " to ",
                                 std::numeric_limits<T>::max(), " must"));
}

}  // namespace cleave
