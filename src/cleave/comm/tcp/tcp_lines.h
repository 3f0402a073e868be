#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>

#include "cleave/comm/tcp/listener.h"
#include "cleave/comm/tcp/opening.h"
#include "cleave/comm/tcp/server_line.h"
#include "cleave/comm/tcp/tcp_link.h"

namespace cleave::comm {

/// What a device must know before it can talk to the others.
struct TcpSetup {
  int device = 0;
  std::vector<TcpPeer> peers;    ///< [device], this one among them
  Listener* listener = nullptr;  ///< where the others call; must outlive the transport
  const Tls* tls = nullptr;      ///< null: plaintext
  ServerLine* server = nullptr;  ///< for devices that cannot reach each other; null: all can
  std::uint32_t epoch = 1;
  std::string program;            ///< hash of what all devices run
  std::uint64_t early_bytes = 0;  ///< of a link's messages that may leave before their credit has
                                  ///< come; the same on all devices
  Clock::duration open_within = std::chrono::seconds(30);    ///< until all devices are there
  Clock::duration resume_within = std::chrono::seconds(10);  ///< until a broken link counts as lost
};

/// The links from one device to all others, and what keeps them connected: calling, listening,
/// judging who is at the other end, calling again when a connection breaks. The device with the
/// higher number calls, so that nobody needs to reach the devices behind a firewall but through the
/// server.
class TcpLines {
 public:
  /// Returns once all are connected. Throws DeviceLost, naming the device that did not come and
  /// why.
  explicit TcpLines(TcpSetup setup);

  int device() const { return setup_.device; }
  int devices() const { return static_cast<int>(setup_.peers.size()); }

  /// Null to this device itself.
  TcpLink* to(int device) const { return lines_.at(static_cast<std::size_t>(device)).link.get(); }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Line& line : lines_) {
      if (line.link) visit(*line.link);
    }
  }

  /// Sleeps until something can be read or written, or `most` has passed, and does it. True if
  /// there was news.
  bool await_sockets(Clock::duration most);

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

  void await_all();
  void look_after_lines();
  void call(Line& line);
  void look_after_openings();
  void note_failure(const Opening& opening, const std::string& reason);
  std::uint64_t judge(const Greeting& greeting, const Opening& opening);
  void check_identity(int device, const Opening& opening) const;
  void listen_to_server();

  TcpSetup setup_;
  std::vector<Line> lines_;  ///< [device]; no link to this one
  std::vector<std::unique_ptr<Opening>> openings_;
  std::vector<pollfd> polled_;
};

}  // namespace cleave::comm
