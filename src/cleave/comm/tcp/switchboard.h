#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>

#include "cleave/comm/tcp/session.h"

namespace cleave::comm {

/// Connects two devices that cannot reach each other: each has opened a connection to the server,
/// and what comes over one goes out over the other. Only .cpp files of comm/tcp include this.
class Switchboard {
 public:
  explicit Switchboard(asio::io_context& context) : context_(context) {}

  /// Hears of every piece that is passed on.
  using Count = std::function<void(std::size_t bytes)>;

  /// `caller` waits until the one whom `callee` is the server's line to has opened a connection of
  /// its own. The callee is told that device `from` calls: it sees only the server.
  void call(const std::shared_ptr<Session>& caller, int from, Session& callee, Count count);

  /// Of a call, by its number. Ends when one of the two ends. Throws Refusal if nobody has called.
  asio::awaitable<void> answer(std::shared_ptr<Session> session, const std::string& number);

 private:
  struct Call {
    std::shared_ptr<Session> caller;
    Count count;
  };

  Call take(const std::string& number);
  static asio::awaitable<void> pass_on(std::shared_ptr<Session> from, std::shared_ptr<Session> to,
                                       Count count);

  asio::io_context& context_;
  std::map<std::string, Call> calls_;  ///< by their number
};

}  // namespace cleave::comm
