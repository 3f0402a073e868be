#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cleave/comm/communicator.h"
#include "cleave/comm/pool.h"
#include "cleave/comm/transport.h"

namespace cleave::comm {

class TurnTransport;

/// A message to whoever has its turn, or from there.
class TurnMessage final : public Operation {
 public:
  explicit TurnMessage(TurnTransport& owner) : owner_(owner) {}

  bool advance() override { return inner_.done(); }
  void release() noexcept override;
  std::string describe() const override { return inner_.describe(); }
  int awaited() const override { return inner_.in_flight() ? peer_ : kNobody; }

 private:
  friend class TurnTransport;

  TurnTransport& owner_;
  Pending inner_;
  int peer_ = 0;
};

/// A device's end of a pipeline of two, one of which is played by several processes in turn:
///
///     device 0   process 0
///     device 1   process 3, then 1, then 2, …
///
/// To process 0 it is one world from its first step to its last, whose other device is whoever was
/// faced last; to each of the others it is the pair of them. Built on a communicator, so that it
/// knows nothing of wires. The devices have no groups but themselves alone.
class TurnTransport final : public Transport {
 public:
  /// `others`: those of `processes` who take turns; on one of them, its own rank alone. All of them
  /// make theirs together. `processes` must outlive it.
  TurnTransport(Communicator& processes, std::span<const int> others);

  /// From now on device 1 is this process. Nothing may be in flight.
  void face(int process) { faced_ = &pairs_.at(process); }

  int device() const override { return device_; }
  int devices() const override { return 2; }
  bool give_way() override { return processes_.give_way(); }
  bool sends_credits() const override { return processes_.sends_credits(); }
  Operation& post(const Message& message) override;
  int open_context(int parent, std::span<const int> devices) override;

  void give_back(TurnMessage& message) noexcept { pool_.give_back(message); }

 private:
  /// Numbers that the devices combine have tags by how many went before, which differ where one of
  /// them has met others meanwhile: they have a group of their own, and match by their order.
  struct Pair {
    std::unique_ptr<Communicator> messages;
    std::unique_ptr<Communicator> numbers;
  };

  std::optional<int> ask_awaited(int, Clock::time_point) override { return std::nullopt; }
  void make_room_for(std::size_t messages) override;
  void progress_messages() override { processes_.progress(); }
  void idle(Wait& wait) override;

  Communicator& processes_;
  int device_;
  std::map<int, Pair> pairs_;  ///< by process
  Pair* faced_ = nullptr;
  Pool<TurnMessage> pool_;
};

}  // namespace cleave::comm
