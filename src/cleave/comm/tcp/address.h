#pragma once

#include <cstdint>
#include <string>

namespace cleave::comm {

/// Where a program listens: "host:port", "[::1]:port".
struct Address {
  std::string host;
  std::uint16_t port = 0;
  friend bool operator==(const Address&, const Address&) = default;
};

/// Throws UserError.
Address parse_address(const std::string& text);
std::string to_string(const Address& address);

/// Whether packets to `host` cannot leave this machine.
bool is_loopback(const std::string& host);

}  // namespace cleave::comm
