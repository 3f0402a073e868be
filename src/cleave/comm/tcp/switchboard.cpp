#include "cleave/comm/tcp/switchboard.h"

#include <chrono>
#include <exception>
#include <utility>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>

#include "cleave/comm/tcp/identity.h"
#include "cleave/comm/tcp/seats.h"

namespace cleave::comm {
namespace {

using SessionPointer = std::shared_ptr<Session>;

constexpr std::chrono::seconds kLongestRelayWait{10};

}  // namespace

void Switchboard::call(const SessionPointer& caller, Session& callee) {
  std::erase_if(calls_, [](const auto& call) { return call.second->was_late(); });
  const std::string number = random_token();
  calls_[number] = caller;
  caller->limit(kLongestRelayWait);
  callee.post({"call", number});
}

SessionPointer Switchboard::take(const std::string& number) {
  const auto call = calls_.find(number);
  admit(call != calls_.end(), "nobody has called");
  SessionPointer caller = std::move(call->second);
  calls_.erase(call);
  caller->allow();
  return caller;
}

asio::awaitable<void> Switchboard::answer(SessionPointer session, const std::string& number) {
  const SessionPointer caller = take(number);
  const Letter connected(1, "connected");
  co_await session->send(connected);
  co_await caller->send(connected);
  asio::co_spawn(context_, pass_on(caller, session), asio::detached);
  co_await pass_on(session, caller);
}

asio::awaitable<void> Switchboard::pass_on(SessionPointer from, SessionPointer to) {
  try {
    co_await from->pass_on_to(*to);
  } catch (const std::exception&) {
    // One end is gone; the other is told by the end of its connection.
  }
  from->close();
  to->close();
}

}  // namespace cleave::comm
