#include "cleave/comm/staged_message.h"

namespace cleave::comm {

void StagedMessage::start(Transport& transport, const Message& message) {
  message_ = message;
  complete_ = false;
  const std::size_t bytes = message.bytes.size();
  if (message.on_host == nullptr && buffer_.size() < bytes) {
    owner_.note_unplanned(bytes - buffer_.size());
    buffer_.resize(bytes);
  }
  staged_ = {message.on_host == nullptr ? buffer_.data() : message.on_host, bytes};
  Message staged = message;
  staged.bytes = staged_;
  if (message.direction == Direction::Send && !message.is_on_host)
    owner_.memory().copy_out(message.bytes.data(), staged.bytes);
  inner_ = &transport.post(staged);
}

bool StagedMessage::advance() {
  if (complete_) return true;
  if (!inner_->advance()) return false;
  if (message_.direction == Direction::Receive)
    owner_.memory().copy_in(message_.bytes.data(), staged_);
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
