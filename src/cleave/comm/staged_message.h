#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cleave/comm/pool.h"
#include "cleave/comm/transport.h"
#include "cleave/tensor/memory.h"

namespace cleave::comm {

class Staging;

/// A message whose bytes lie where the transport cannot read: they pass through a buffer of the
/// host, copied out before they are sent, copied in once they have arrived.
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
  std::vector<std::byte> buffer_;  ///< grows to the largest message that it ever carried
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

 private:
  Memory& memory_;
  Pool<StagedMessage> pool_;
};

}  // namespace cleave::comm
