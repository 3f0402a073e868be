#include "cleave/comm/transport.h"

#include <algorithm>

#include "cleave/base/check.h"

namespace cleave::comm {

std::string describe(const Message& message) {
  const bool sends = message.direction == Direction::Send;
  return detail::concat(sends ? "send of " : "receive of ", message.bytes.size(), " B ",
                        sends ? "to" : "from", " device ", message.peer, ", tag ", message.tag);
}

void Transport::advance_collectives() {
  for (Operation* collective : collectives_) collective->advance();
}

void Transport::progress() {
  progress_messages();
  advance_collectives();
}

bool Transport::wait(Operation& wanted, Clock::time_point deadline) {
  struct Scope {
    Transport& transport;
    ~Scope() { transport.end_wait(); }
  };
  Wait wait{.wanted = wanted, .deadline = deadline, .start = Clock::now()};
  begin_wait(wanted);
  const Scope scope{*this};
  for (;;) {
    wait.seen = events();  // before the look, so that news after it is not slept through
    advance_collectives();
    if (wanted.advance()) return true;  // last: what it completes itself makes no news
    if (Clock::now() >= deadline) return false;
    idle(wait);
  }
}

void Transport::discharge(Operation& collective) noexcept {
  collectives_.erase(std::remove(collectives_.begin(), collectives_.end(), &collective),
                     collectives_.end());
}

void Transport::count(Traffic traffic, std::int64_t bytes) {
  switch (traffic) {
    case Traffic::Message:
      sent_.message += bytes;
      break;
    case Traffic::Reduce:
      sent_.reduce += bytes;
      break;
    case Traffic::Gather:
      sent_.gather += bytes;
      break;
    case Traffic::Numbers:
      sent_.numbers += bytes;
      break;
  }
}

}  // namespace cleave::comm
