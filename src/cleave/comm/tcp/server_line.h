#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/comm/exchange_log.h"
#include "cleave/comm/tcp/letter_box.h"
#include "cleave/comm/tcp/stream.h"

namespace cleave::comm {

/// How to reach a server and know that it is the right one.
struct ServerContact {
  Address address;
  const Tls* tls = nullptr;  ///< null: plaintext
  std::string fingerprint;   ///< of its certificate, with TLS
};

/// What a device offers when it joins.
struct Offer {
  std::string name;
  std::int64_t memory = 0;  ///< bytes; 0: as much as is needed
  int threads = 0;          ///< 0: as many as are needed
  std::uint16_t port = 0;   ///< where other devices can call it
  std::string key;          ///< Server::own_key() in its own process, else empty
};

/// Where another device can be reached, and how to know that it is the right one.
struct TcpPeer {
  Address address;
  std::string fingerprint;  ///< of its certificate; empty: there is no TLS
};

/// What a device is told once all are there.
struct Assignment {
  int device = 0;
  std::string run;
  std::string program;
  std::vector<TcpPeer> peers;  ///< [device]
};

/// One letter to the server and its answer, over a connection of its own. Throws UserError if it
/// refuses, and DeviceLost if it cannot be reached or is not the one that was expected.
Letter ask_server(const ServerContact& server, Letter question);

/// A device's standing connection to the server.
class ServerLine {
 public:
  explicit ServerLine(ServerContact server) : server_(std::move(server)) {}

  /// Connects. Throws DeviceLost if it cannot, or if it is not the server that was expected.
  void open();

  /// Of this machine, as the server sees it; once the line is open.
  std::string local_host() const { return stream_->local_host(); }

  /// Waits until the run begins; `on_waiting` hears how many devices are still to come. Throws
  /// UserError if the server refuses, DeviceLost if it is gone.
  Assignment join(const Offer& offer, const std::function<void(int to_come)>& on_waiting);

  /// Reads what has come. Never waits.
  void advance();

  /// Before a clean end, so that the server does not take this device for lost.
  void say_bye();

  /// Numbers of calls that wait for an answer.
  std::vector<std::string> take_calls() { return std::exchange(calls_, {}); }

  /// Why the server takes `device` for lost; null if it does not.
  const std::string* lost(int device) const;

  const ServerContact& server() const { return server_; }
  int socket() const { return stream_ ? stream_->socket() : -1; }

 private:
  ServerContact server_;
  std::optional<Stream> stream_;
  LetterBox letters_{kLongestLetter};
  std::vector<std::string> calls_;
  std::map<int, std::string> lost_;
};

/// Throws ProtocolError unless the other end of `stream` is the server.
void check_is_server(const Stream& stream, const ServerContact& server);

}  // namespace cleave::comm
