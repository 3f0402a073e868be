#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/comm/tcp/session.h"

namespace cleave::comm {

/// Why the server does not let somebody in; it is told, and the log has it.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Parts>
void admit(bool well, const Parts&... parts) {
  if (!well) throw Refusal(detail::concat(parts...));
}

/// A place in the run and who has taken it.
struct Seat {
  enum class Presence : std::uint8_t { Awaited, Here, Done, Lost };

  std::shared_ptr<Session> session;  ///< null: awaited
  std::string name;
  std::string host;  ///< where other devices reach it; empty: where they reach the server
  std::int64_t memory = 0;
  std::uint16_t port = 0;
  std::string fingerprint;
  Presence presence = Presence::Awaited;
};

const char* to_string(Seat::Presence presence);

/// Who takes part in a run. Device 0 is the one in the server's own process.
class Seats {
 public:
  /// `needs`: [device] bytes of memory.
  explicit Seats(std::vector<std::int64_t> needs) : needs_(std::move(needs)), all_(needs_.size()) {}

  enum class Whose : std::uint8_t { Own, Other };

  /// The number of the seat that `seat` becomes. Throws Refusal.
  std::size_t take(Seat seat, Whose whose);

  std::size_t free() const;
  bool begun() const { return begun_; }

  /// All are there: each is told its number, the run and where the others are.
  void begin(const std::string& run, const std::string& program);

  /// A connection has ended. Returns what the log should say; nothing if that was to be expected.
  std::optional<std::string> leave(const Session& session, const std::string& why);

  void tell_all(const Letter& letter) const;

  const std::vector<Seat>& all() const { return all_; }
  Seat& at(std::size_t number) { return all_[number]; }

 private:
  std::vector<std::int64_t> needs_;
  std::vector<Seat> all_;
  bool begun_ = false;
};

}  // namespace cleave::comm
