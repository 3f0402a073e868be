#pragma once

#include <chrono>
#include <memory>
#include <optional>

namespace cleave::comm {

/// "Whom do you wait for?", between ranks that have waited for long. Messages of their own, small
/// enough for MPI to buffer: a rank that is stopped or computes simply does not answer.
class Inquiries {
 public:
  Inquiries();
  ~Inquiries();
  Inquiries(const Inquiries&) = delete;
  Inquiries& operator=(const Inquiries&) = delete;

  /// Tells whoever asked that this rank waits for `awaited`. Never waits.
  void answer(int awaited);

  /// Whom `rank` waits for; nothing if it has not answered before `deadline`. Answers others
  /// meanwhile.
  std::optional<int> ask(int rank, int awaited, std::chrono::steady_clock::time_point deadline);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cleave::comm
