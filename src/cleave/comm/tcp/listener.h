#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cleave/comm/tcp/address.h"
#include "cleave/comm/tcp/stream.h"

namespace cleave::comm {

/// A socket that listens.
class Listener {
 public:
  /// Port 0: any. Throws UserError if the address cannot be had.
  explicit Listener(const Address& address);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener();

  int socket() const { return socket_; }
  std::uint16_t port() const;

  /// The next connection, or nothing at the moment.
  std::optional<Stream> accept(const Tls* tls);

  /// Why the last accept() left a connection waiting, which the process has no room for; empty if
  /// it did not.
  const std::string& lack() const { return lack_; }

 private:
  int socket_ = -1;
  std::string lack_;
};

}  // namespace cleave::comm
