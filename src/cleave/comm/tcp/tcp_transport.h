#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/comm/pool.h"
#include "cleave/comm/tcp/tcp_lines.h"
#include "cleave/comm/transport.h"

namespace cleave::comm {

/// A device's end of a transport over TCP.
class TcpTransport final : public Transport {
 public:
  /// Throws DeviceLost, naming the device that did not come and why.
  explicit TcpTransport(TcpSetup setup);
  ~TcpTransport() override;

  int device() const override { return lines_.device(); }
  int devices() const override { return lines_.devices(); }
  bool sends_credits() const override { return true; }
  Operation& post(const Message& message) override;
  int open_context(int parent, std::span<const int> devices) override;

  /// Tells all others that this device ends because of `reason`.
  void abort(const std::string& reason);

  void give_back(TcpTransfer& transfer) noexcept { pool_.give_back(transfer); }

 private:
  std::optional<int> ask_awaited(int device, Clock::time_point deadline) override;
  void make_room_for(std::size_t messages) override;
  void progress_messages() override;
  void idle(Wait& wait) override;
  bool move(Clock::duration most);

  TcpLines lines_;
  Pool<TcpTransfer> pool_;
  std::vector<std::uint64_t> contexts_{0};  ///< [context] -> as the wire has it
  std::map<std::uint64_t, int> opened_;     ///< how often a group was asked for
  bool ended_ = false;
};

}  // namespace cleave::comm
