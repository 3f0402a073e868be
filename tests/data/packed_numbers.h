#pragma once

#include <string>
#include <vector>

namespace cleave::testing {

/// The bytes of numbers, as a file of tokens has them.
template <class T>
std::string packed(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

}  // namespace cleave::testing
