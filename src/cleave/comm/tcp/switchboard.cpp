#include "cleave/comm/tcp/switchboard.h"

#include <chrono>
#include <exception>
#include <string>
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

void Switchboard::call(const SessionPointer& caller, int from, Session& callee, Count count) {
  std::erase_if(calls_, [](const auto& call) { return call.second.caller->was_late(); });
  const std::string number = random_token();
  calls_[number] = {caller, std::move(count)};
  caller->limit(kLongestRelayWait);
  callee.post({"call", number, std::to_string(from)});
}

Switchboard::Call Switchboard::take(const std::string& number) {
  const auto found = calls_.find(number);
  admit(found != calls_.end(), "nobody has called");
  Call call = std::move(found->second);
  calls_.erase(found);
  call.caller->allow();
  return call;
}

asio::awaitable<void> Switchboard::answer(SessionPointer session, const std::string& number) {
  const Call call = take(number);
  const Letter connected(1, "connected");
  co_await session->send(connected);
  co_await call.caller->send(connected);
  asio::co_spawn(context_, pass_on(call.caller, session, call.count), asio::detached);
  co_await pass_on(session, call.caller, call.count);
}

asio::awaitable<void> Switchboard::pass_on(SessionPointer from, SessionPointer to, Count count) {
  try {
    co_await from->pass_on_to(*to, count);
  } catch (const std::exception&) {
    // One end is gone; the other is told by the end of its connection.
  }
  from->close();
  to->close();
}

}  // namespace cleave::comm
