#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <poll.h>

#include "cleave/comm/pool.h"
#include "cleave/comm/tcp/opening.h"
#include "cleave/comm/tcp/server_line.h"
#include "cleave/comm/tcp/tcp_link.h"
#include "cleave/comm/transport.h"

namespace cleave::comm {

/// What a device must know before it can talk to the others.
struct TcpSetup {
  int device = 0;
  std::vector<TcpPeer> peers;    ///< [device], this one among them
  Listener* listener = nullptr;  ///< where the others call; must outlive the transport
  const Tls* tls = nullptr;      ///< null: plaintext
  ServerLine* server = nullptr;  ///< for devices that cannot reach each other; null: all can
  std::uint32_t epoch = 1;
  std::string program;                                       ///< hash of what all devices run
  Clock::duration open_within = std::chrono::seconds(30);    ///< until all devices are there
  Clock::duration resume_within = std::chrono::seconds(10);  ///< until a broken link counts as lost
};

/// A device's end of a transport over TCP: a link to every other device, made in the constructor,
/// and made again when it breaks. The device with the higher number calls,
/// so that nobody needs to reach the devices behind a firewall but through the server.
class TcpTransport final : public Transport {
 public:
  /// Throws DeviceLost, naming the device that did not come and why.
  explicit TcpTransport(TcpSetup setup);
  ~TcpTransport() override;

  int device() const override { return setup_.device; }
  int devices() const override { return static_cast<int>(setup_.peers.size()); }
  Operation& post(const Message& message) override;
  int open_context(int parent, std::span<const int> devices) override;

  /// Tells all others that this device ends because of `reason`.
  void abort(const std::string& reason);

  void give_back(TcpTransfer& transfer) noexcept { pool_.give_back(transfer); }

 private:
  /// The link to one device and how its connection is looked after.
  struct Line {
    std::unique_ptr<TcpLink> link;
    bool was_connected = false;
    Clock::time_point broken_since;
    Clock::time_point call_again;
    int failed_calls = 0;  ///< in a row
    std::string last_error;
  };

  std::optional<int> ask_awaited(int device, Clock::time_point deadline) override;
  void make_room_for(std::size_t messages) override;
  void progress_messages() override;
  void idle(Wait& wait) override;

  void await_all();
  void await_sockets(Clock::duration most);
  void look_after_lines();
  void call(Line& line);
  void look_after_openings();
  void note_failure(const Opening& opening, const std::string& reason);
  std::uint64_t judge(const Greeting& greeting, const Opening& opening);
  void check_certificate(int device, const Opening& opening) const;
  void listen_to_server();
  bool all(bool (TcpLink::*property)() const) const;
  void answer_questions();

  TcpSetup setup_;
  std::vector<Line> lines_;  ///< [device]; no link to this one
  std::vector<std::unique_ptr<Opening>> openings_;
  Pool<TcpTransfer> pool_;
  std::vector<pollfd> polled_;
  std::vector<std::uint64_t> contexts_;  ///< [context] -> as the wire has it
  std::map<std::uint64_t, int> opened_;  ///< how often a group was asked for
  bool ended_ = false;
};

}  // namespace cleave::comm
