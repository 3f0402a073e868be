#include "cleave/comm/tcp/tcp_transport.h"

#include <algorithm>
#include <utility>

namespace cleave::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// How long a device that has finished waits for the others to say so too.
constexpr std::chrono::seconds kLongestFarewell{2};

// How often one who waits for an answer looks up.
constexpr milliseconds kAnswerLook{20};

// So long one who waits asks its sockets again and again before it sleeps: to be woken takes tens
// of microseconds, and the next bytes of a message are seldom later. Meanwhile it does not yield:
// on a busy machine others would then compute for milliseconds, which bytes that arrive do not end.
constexpr microseconds kAsking{20};

}  // namespace

TcpTransport::TcpTransport(TcpSetup setup) : lines_(std::move(setup)) {}

// All leave at about the same time. Whoever is first stays until the others have heard it, so that
// nobody takes it for lost.
TcpTransport::~TcpTransport() {
  if (!ended_) abort("");
  const Clock::time_point deadline = Clock::now() + kLongestFarewell;
  const auto all_heard = [&] {
    bool heard = true;
    lines_.for_each([&](const TcpLink& link) {
      if (link.connected() && !(link.idle() && link.ended())) heard = false;
    });
    return heard;
  };
  while (!all_heard() && Clock::now() < deadline) move(kAnswerLook);
}

void TcpTransport::abort(const std::string& reason) {
  ended_ = true;
  lines_.for_each([&](TcpLink& link) { link.say_farewell(reason); });
}

Operation& TcpTransport::post(const Message& message) {
  TcpTransfer& transfer = pool_.acquire(*this);
  transfer.message_ = message;
  transfer.context_ = contexts_.at(static_cast<std::size_t>(message.context));
  transfer.link_ = lines_.to(message.peer);
  transfer.link_->post(transfer);
  return transfer;
}

// The members name a group alike without talking: by its parent, its members, and how often they
// have asked for it.
int TcpTransport::open_context(int parent, std::span<const int> devices) {
  Hasher hasher;
  hasher.add(std::as_bytes(std::span(&contexts_.at(static_cast<std::size_t>(parent)), 1)));
  hasher.add(std::as_bytes(devices));
  const int time = opened_[hasher.digest()]++;
  hasher.add(std::as_bytes(std::span(&time, 1)));
  contexts_.push_back(hasher.digest());
  return static_cast<int>(contexts_.size()) - 1;
}

void TcpTransport::make_room_for(std::size_t messages) {
  pool_.prepare(messages, *this);
  lines_.for_each([&](TcpLink& link) { link.make_room(messages); });
}

void TcpTransport::progress_messages() {
  move({});
}

void TcpTransport::idle(Wait& wait) {
  const Clock::time_point asleep = std::min(wait.deadline, Clock::now() + kAsking);
  do {
    if (move({})) return;
  } while (Clock::now() < asleep);
  const nanoseconds left = wait.deadline - Clock::now();
  move(std::clamp<nanoseconds>(left, {}, milliseconds(100)));
}

bool TcpTransport::move(Clock::duration most) {
  if (!lines_.await_sockets(most)) return false;
  lines_.for_each([&](TcpLink& link) {
    if (link.take_question()) link.tell_awaited(awaited());
  });
  return true;
}

std::optional<int> TcpTransport::ask_awaited(int device, Clock::time_point deadline) {
  if (device == this->device()) return awaited();
  TcpLink& link = *lines_.to(device);
  link.ask_awaited();
  while (Clock::now() < deadline) {
    if (const std::optional<int> answer = link.take_answer()) return answer;
    move(std::min<Clock::duration>(deadline - Clock::now(), kAnswerLook));
  }
  return std::nullopt;
}

}  // namespace cleave::comm
