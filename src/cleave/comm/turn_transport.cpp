#include "cleave/comm/turn_transport.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "cleave/base/check.h"

namespace cleave::comm {
namespace {

/// How long a wait lasts at most before the device looks up.
constexpr std::chrono::milliseconds kLongestLook{100};

}  // namespace

void TurnMessage::release() noexcept {
  inner_.withdraw();
  owner_.give_back(*this);
}

TurnTransport::TurnTransport(Communicator& processes, std::span<const int> others)
    : processes_(processes), device_(processes.rank() == 0 ? 0 : 1) {
  for (const int process : others) {
    const std::array<int, 2> members = {0, process};
    Pair& pair = pairs_[process];
    pair.messages = processes.group(members);
    pair.numbers = processes.group(members);
    faced_ = &pair;
  }
}

Operation& TurnTransport::post(const Message& message) {
  CLEAVE_CHECK(faced_ != nullptr && message.context == 0, "device ", device_, " faces nobody");
  const bool combines = message.tag >= kTags;
  Communicator& pair = combines ? *faced_->numbers : *faced_->messages;
  const int tag = combines ? 0 : message.tag;
  TurnMessage& posted = pool_.acquire(*this);
  posted.peer_ = message.peer;
  posted.inner_ = message.direction == Direction::Send
                      ? pair.send(message.bytes, message.peer, tag)
                      : pair.receive(message.bytes, message.peer, tag);
  return posted;
}

int TurnTransport::open_context(int /*parent*/, std::span<const int> devices) {
  CLEAVE_CHECK(false, "a group of ", devices.size(), " devices, one of which may change");
  return 0;
}

void TurnTransport::make_room_for(std::size_t messages) {
  pool_.prepare(messages, *this);
  if (faced_ != nullptr) faced_->messages->make_room(/*collectives=*/0, messages);
}

void TurnTransport::idle(Wait& wait) {
  auto* const wanted = dynamic_cast<TurnMessage*>(&wait.wanted);
  const Clock::duration left =
      std::min<Clock::duration>(wait.deadline - Clock::now(), kLongestLook);
  if (wanted == nullptr || left <= Clock::duration::zero()) return processes_.progress();
  [[maybe_unused]] const bool arrived = wanted->inner_.wait_for(left);
}

}  // namespace cleave::comm
