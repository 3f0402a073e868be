#include "cleave/comm/staged_message.h"

namespace cleave::comm {

void StagedMessage::start(Transport& transport, const Message& message) {
  message_ = message;
  complete_ = false;
  if (buffer_.size() < message.bytes.size()) buffer_.resize(message.bytes.size());
  Message staged = message;
  staged.bytes = std::span(buffer_).first(message.bytes.size());
  if (message.direction == Direction::Send)
    owner_.memory().copy_out(message.bytes.data(), staged.bytes);
  inner_ = &transport.post(staged);
}

bool StagedMessage::advance() {
  if (complete_) return true;
  if (!inner_->advance()) return false;
  if (message_.direction == Direction::Receive)
    owner_.memory().copy_in(message_.bytes.data(), std::span(buffer_).first(message_.bytes.size()));
  complete_ = true;
  return true;
}

void StagedMessage::release() noexcept {
  inner_->release();
  owner_.give_back(*this);
}

Operation& Staging::post(Transport& transport, const Message& message) {
  StagedMessage& staged = pool_.acquire(*this);
  staged.start(transport, message);
  return staged;
}

}  // namespace cleave::comm
