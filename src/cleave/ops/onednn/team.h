#pragma once

namespace cleave::ops::onednn {

/// While alive, oneDNN calls of this thread compile and run for a team of `threads`.
///
/// oneDNN asks OpenMP how many threads there are, and OpenMP keeps the answer per thread: devices
/// that are driven by different threads do not disturb each other.
class TeamOf {
 public:
  explicit TeamOf(int threads);
  ~TeamOf();
  TeamOf(const TeamOf&) = delete;
  TeamOf& operator=(const TeamOf&) = delete;

 private:
  int before_;
};

}  // namespace cleave::ops::onednn
