#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/comm/pool.h"

namespace cleave::comm {

/// A collective in flight: a few rounds of messages, and what is to be done between them. Each
/// round is posted when the one before has completed, by whatever makes progress.
///
/// All messages of a collective have the same tag, its number in the group. Rounds follow each
/// other in the same order at both ends, so they match.
class Collective final : public Operation {
 public:
  explicit Collective(Communicator& comm);

  void start_barrier(int tag);
  void start_broadcast(int tag, std::span<std::byte> bytes, int root);
  void start_all_gather(int tag, std::span<std::byte> whole, std::span<const std::size_t> borders,
                        HostRoom on_host);

  enum class Then { Stop, Gather };
  void start_reduce(int tag, const Reduction& reduction, std::span<const std::size_t> borders,
                    Then then);

  bool advance() override;
  void release() noexcept override;
  std::string describe() const override;
  int awaited() const override;

 private:
  using Round = bool (Collective::*)();  ///< posts the next round; false when there is none

  void start(CollectiveKind kind, int tag, Traffic traffic, Round next);
  bool next_of_barrier();
  bool next_of_broadcast();
  bool next_of_all_gather();
  bool next_of_reduce();
  void add_up_round();

  /// Where a message passes through the host, and whether what is sent is there already.
  struct OnHost {
    std::byte* at = nullptr;
    bool filled = false;
  };
  void send(std::span<std::byte> bytes, int to, OnHost on_host);
  void receive(std::span<std::byte> bytes, int from, OnHost on_host);
  void pass_through(HostRoom on_host, std::size_t needed);
  std::byte* on_host_at(std::size_t offset) const;
  std::span<std::byte> slice(int member) const;
  std::span<std::byte> piece(int member, std::size_t round) const;
  std::span<std::byte> arriving(int member, std::size_t bytes) const;

  Communicator& comm_;
  std::vector<Pending> flights_;  ///< of the current round
  bool complete_ = false;
  CollectiveKind kind_ = CollectiveKind::Barrier;
  int tag_ = 0;
  Traffic traffic_ = Traffic::Gather;
  Round next_ = nullptr;
  std::size_t round_ = 0;  ///< posted so far
  std::size_t logged_ = ExchangeLog::kNone;
  std::int64_t sent_ = 0;  ///< bytes

  std::span<std::byte> bytes_;
  std::vector<std::size_t> borders_;  ///< slice of member i: [borders_[i], borders_[i+1])
  int root_ = 0;
  std::span<std::byte> workspace_;
  std::size_t piece_bytes_ = 0;
  const Adder* adder_ = nullptr;
  std::vector<std::byte*> parts_;  ///< of the sum, by member
  Then then_ = Then::Stop;
  HostRoom on_host_;  ///< gathering: like the whole; adding up: what arrives, then what leaves
};

}  // namespace cleave::comm
