#include "cleave/train/step/byte_stream.h"

#include <algorithm>
#include <utility>

namespace cleave::train {

SendStream::SendStream(comm::Communicator& processes, std::vector<int> to, int tag)
    : processes_(processes), to_(std::move(to)), tag_(tag) {}

void SendStream::wait(Room& room) {
  for (comm::Pending& message : room.on_their_way) message.wait();
  room.on_their_way.clear();
  room.bytes.clear();
}

void SendStream::send() {
  Room& room = rooms_[current_];
  for (const int process : to_)
    room.on_their_way.push_back(processes_.send(room.bytes, process, tag_));
  current_ = 1 - current_;
  wait(rooms_[current_]);
}

void SendStream::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    std::vector<std::byte>& room = rooms_[current_].bytes;
    room.reserve(kStreamMessage);
    const auto some = bytes.first(std::min(bytes.size(), kStreamMessage - room.size()));
    room.insert(room.end(), some.begin(), some.end());
    bytes = bytes.subspan(some.size());
    if (room.size() == kStreamMessage) send();
  }
}

void SendStream::end() {
  if (!rooms_[current_].bytes.empty()) send();
  for (Room& room : rooms_) wait(room);
}

ReceiveStream::ReceiveStream(comm::Communicator& processes, int from, int tag, std::int64_t bytes)
    : processes_(processes), from_(from), tag_(tag), bytes_(bytes) {
  for (Room& room : rooms_) post(room);
}

void ReceiveStream::post(Room& room) {
  const std::int64_t left = bytes_ - posted_;
  if (left == 0) return;
  room.bytes.resize(std::min(static_cast<std::size_t>(left), kStreamMessage));
  posted_ += std::ssize(room.bytes);
  room.coming = processes_.receive(room.bytes, from_, tag_);
}

std::span<std::byte> ReceiveStream::next() {
  if (taken_ > 0) post(rooms_[1 - current_]);  // what was handed out before
  Room& room = rooms_[current_];
  room.coming.wait();
  current_ = 1 - current_;
  taken_ += std::ssize(room.bytes);
  return room.bytes;
}

}  // namespace cleave::train
