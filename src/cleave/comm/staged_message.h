#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/comm/pool.h"
#include "cleave/comm/transport.h"
#include "cleave/tensor/memory.h"

namespace cleave::comm {

class Staging;

/// A message whose bytes lie where the transport cannot read: they pass through the host's memory,
/// where the message says or in a buffer, copied out before they are sent, copied in once they have
/// arrived.
class StagedMessage final : public Operation {
 public:
  explicit StagedMessage(Staging& owner) : owner_(owner) {}

  void start(Transport& transport, const Message& message);

  bool advance() override;
  void release() noexcept override;
  std::string describe() const override { return inner_->describe(); }
  int awaited() const override { return complete_ ? kNobody : inner_->awaited(); }

 private:
  Staging& owner_;
  Message message_;
  std::vector<std::byte> buffer_;  ///< grows to the largest message without a place of its own
  std::span<std::byte> staged_;    ///< where the bytes pass through
  Operation* inner_ = nullptr;
  bool complete_ = false;
};

/// The buffers of a device whose tensors are not in the host's memory.
class Staging {
 public:
  explicit Staging(Memory& memory) : memory_(memory) {}

  Memory& memory() { return memory_; }
  Operation& post(Transport& transport, const Message& message);
  void give_back(StagedMessage& message) noexcept { pool_.give_back(message); }

  std::int64_t unplanned_bytes() const { return unplanned_bytes_; }
  void note_unplanned(std::size_t more) { unplanned_bytes_ += static_cast<std::int64_t>(more); }

 private:
  Memory& memory_;
  Pool<StagedMessage> pool_;
  std::int64_t unplanned_bytes_ = 0;  ///< of the messages' own buffers
};

}  // namespace cleave::comm
