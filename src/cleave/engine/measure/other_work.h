#pragma once

#include <chrono>
#include <optional>

namespace cleave::engine {

/// What programs other than this one take of the machine's processors, from its making on; the
/// host of a virtual machine counts as one.
class OtherWork {
 public:
  OtherWork();

  /// 0 to 1 of all hardware threads; nothing if the system does not say.
  std::optional<double> share() const;

 private:
  std::optional<double> before_;  ///< processor seconds
  std::chrono::steady_clock::time_point start_;
};

}  // namespace cleave::engine
