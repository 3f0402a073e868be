#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cleave::train {

/// Text that ends where one of some strings begins. What could be the beginning of one waits until
/// more is known.
class StopText {
 public:
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// What can be shown now.
  std::string add(std::string_view text);

  /// What still waits, unless a string was found.
  std::string finish();

  bool found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string waiting_;
  bool found_ = false;
};

}  // namespace cleave::train
