#include "cleave/comm/tcp/outgoing_frames.h"

#include <bit>
#include <utility>

namespace cleave::comm {

void OutgoingFrames::make_room(std::size_t frames) {
  const std::size_t most = std::bit_ceil(2 * (end_ - first_unseen_ + 2 * frames));
  if (most <= frames_.size()) return;
  std::vector<Frame> old(most);
  std::swap(old, frames_);
  for (std::uint64_t each = first_unseen_; each < end_; ++each)
    at(each) = std::move(old[each & (old.size() - 1)]);
}

void OutgoingFrames::add(FrameHeader header, std::span<const std::byte> payload,
                         TcpTransfer* transfer) {
  if (end_ - first_unseen_ == frames_.size()) make_room(frames_.size());
  header.sequence = end_;
  at(end_++) = {.header = header, .payload = payload, .transfer = transfer};
}

bool OutgoingFrames::add_copy(FrameHeader header, std::span<const std::byte> payload) {
  if (payload.size() > most_copied_ - copied_) return false;
  copied_ += payload.size();
  std::vector<std::byte> copy = spare_.take(payload.size());
  copy.assign(payload.begin(), payload.end());
  add(header, copy, nullptr);
  at(end_ - 1).copy = std::move(copy);
  return true;
}

void OutgoingFrames::forget_copy(Frame& frame) {
  copied_ -= frame.payload.size();
  spare_.give_back(std::move(frame.copy));
  frame.copy = {};
}

bool OutgoingFrames::withdraw(const TcpTransfer& transfer) noexcept {
  bool found = false;
  for (std::uint64_t each = first_unseen_; each < end_; ++each) {
    if (at(each).transfer != &transfer) continue;
    at(each).transfer = nullptr;
    found = true;
  }
  return found;
}

}  // namespace cleave::comm
