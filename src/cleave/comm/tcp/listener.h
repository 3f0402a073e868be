#pragma once

#include <cstdint>
#include <optional>

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

 private:
  int socket_ = -1;
};

}  // namespace cleave::comm
