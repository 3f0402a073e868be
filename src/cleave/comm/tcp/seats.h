#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/comm/tcp/server.h"
#include "cleave/comm/tcp/session.h"

namespace cleave::comm {

/// Why the server does not let somebody in; it is told, and the log has it.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Parts>
void admit(bool ok, const Parts&... parts) {
  if (!ok) throw Refusal(detail::concat(parts...));
}

/// Somebody who takes part in a run, could, or did.
struct Seat {
  enum class Presence : std::uint8_t { Ready, Running, Left, Lost };

  std::shared_ptr<Session> session;
  std::string name;
  std::string owner;
  std::string host;  ///< where other devices reach it; empty: where they reach the server
  std::int64_t memory = 0;
  std::uint16_t port = 0;
  std::string fingerprint;
  std::int64_t number = 0;  ///< of the seat, counted over the whole run; 0, -1, …: the server's own
  int device = kNobody;     ///< in the present epoch
  Presence presence = Presence::Ready;
  Clock::time_point heard = Clock::now();

  bool is_own() const { return number <= 0; }
  bool is_here() const { return presence == Presence::Ready || presence == Presence::Running; }
};

const char* to_string(Seat::Presence presence);

/// Who is here, and who of them are the devices of the present epoch. Seat 0 is that of the device
/// in the server's own process; where devices have owners, its further ones are -1, -2, …
///
///     join ── Ready ── begin ──▶ Running ── "ready" ──▶ Ready …
///               │                   │
///               └─ "bye" ─▶ Left    └─ closed, silent, "failed" ──▶ Lost: the epoch is over
class Seats {
 public:
  /// `needs`: [device] bytes of memory in the first epoch; `owners`: ServerSetup::owners.
  Seats(std::vector<std::int64_t> needs, std::vector<std::string> owners, Latecomers latecomers)
      : needs_(std::move(needs)), owners_(std::move(owners)), latecomers_(latecomers) {}

  enum class Whose : std::uint8_t { Own, Other };

  /// Throws Refusal. The reference holds until the next call.
  const Seat& take(Seat seat, Whose whose);

  /// How many the first epoch still waits for.
  std::size_t to_come() const;
  std::uint32_t epoch() const { return epoch_; }

  /// Each of the epoch's devices is told its number, the run and where the others are.
  void begin(const EpochSetup& setup);

  /// It has done its part of the epoch, or given it up.
  void note_ready(const Session& session, std::int64_t epoch);

  /// It leaves and says so, when it has done its part of the epoch or given it up.
  std::optional<MemberEvent> note_bye(const Session& session);

  /// Its connection has ended, or what else befell it. Nothing if that was to be expected.
  std::optional<MemberEvent> lose(const Session& session, const std::string& why);

  void note_heard(const Session& session);

  /// Here, but not heard of since `since`; never the server's own.
  std::vector<std::shared_ptr<Session>> silent_since(Clock::time_point since) const;

  /// The server itself was not there to hear them for so long.
  void forgive(Clock::duration absence);

  std::vector<std::shared_ptr<Session>> running() const;
  void tell_all(const Letter& letter) const;

  const std::vector<Seat>& all() const { return all_; }

  /// Two devices of the present epoch reach each other through the server, which has passed on so
  /// many more bytes between them. Those of an older epoch are not counted.
  void note_relayed(std::uint32_t epoch, int first, int second, std::size_t bytes) {
    if (epoch == epoch_) relayed_[std::minmax(first, second)] += static_cast<std::int64_t>(bytes);
  }

  /// What somebody is told who asks how things are.
  Letter status(const RunStatus& run, const std::deque<std::string>& events) const;

  /// Of the present epoch; null if there is no such device.
  const Seat* device(std::int64_t number) const;

 private:
  Seat* find(const Session& session);
  bool is_broken_up() const;
  std::vector<std::string> waits_for(const RunStatus& run) const;
  std::size_t own_devices() const;
  std::size_t device_for(const Seat& seat) const;
  void forget_the_oldest();

  std::vector<std::int64_t> needs_;
  std::vector<std::string> owners_;
  Latecomers latecomers_;
  std::vector<Seat> all_;
  std::map<std::pair<int, int>, std::int64_t> relayed_;  ///< bytes, by devices of the present epoch
  std::int64_t next_ = 1;
  std::uint32_t epoch_ = 0;
};

}  // namespace cleave::comm
