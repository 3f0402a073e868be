#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "cleave/base/utf8.h"
#include "cleave/comm/tcp/door.h"
#include "cleave/comm/tcp/roll.h"
#include "cleave/comm/tcp/seats.h"
#include "cleave/comm/tcp/server.h"
#include "cleave/comm/tcp/switchboard.h"

namespace cleave::comm {

/// What happens on the server's own thread: who comes in is given a seat, devices are heard and
/// watched, and those who cannot reach each other connected. Other threads post what they want done
/// to `context`, and read what is locked or atomic. Only .cpp files of comm/tcp include this.
struct Server::State {
  using SessionPointer = std::shared_ptr<Session>;

  /// How long a device may be silent at least.
  static constexpr Clock::duration kShortestSilence = std::chrono::seconds(3);

  explicit State(ServerSetup given);

  DoorSetup door_setup();
  asio::awaitable<void> watch();
  asio::awaitable<void> join(SessionPointer session, const Letter& letter);
  asio::awaitable<void> tell_status(SessionPointer session, const Letter& letter);
  asio::awaitable<void> relay(SessionPointer session, const Letter& letter);
  asio::awaitable<void> answer_call(SessionPointer session, const Letter& letter);

  Switchboard::Count count_between(int first, int second);
  void sit_down(const SessionPointer& session, const Letter& letter);
  void check_owner(Session& session, const std::string& owner) const;
  void hear(Session& session, const Letter& said);
  void lose(const Session& session, const std::string& why) {
    note(seats.lose(session, printable_line(why)));
  }
  void give_up(const SessionPointer& session, const std::string& why);
  void give_up_revoked();
  void note(const std::optional<MemberEvent>& event);
  /// Lines may have words of strangers in them.
  void log(const std::string& line) const {
    if (setup.log) setup.log(printable_line(line));
  }

  ServerSetup setup;
  asio::io_context context{1};
  const std::string own_key = random_token();
  Seats seats;
  Switchboard switchboard{context};
  std::deque<std::string> told;  ///< what happened last
  Door door;
  asio::steady_timer timer{context};
  std::atomic<bool> newcomers = false;
  std::int64_t last_known = 0;  ///< seat, to whoever plans the next epoch
  std::atomic<Clock::duration> silence = kShortestSilence;
  Roll roll;
  bool over = false;  ///< the run is, and who leaves needs no mention
  std::mutex mutex;   // guards what follows
  RunStatus status;
  std::thread thread;
};

}  // namespace cleave::comm
