#include "cleave/comm/tcp/address.h"

#include <algorithm>

#include <arpa/inet.h>
#include <netinet/in.h>

#include "cleave/base/check.h"

namespace cleave::comm {

Address parse_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const bool bracketed = text.starts_with('[') && colon > 0 && text[colon - 1] == ']';
  Address address;
  if (colon != std::string::npos) {
    address.host = bracketed ? text.substr(1, colon - 2) : text.substr(0, colon);
    const std::string port = text.substr(colon + 1);
    const bool digits = !port.empty() && port.size() <= 5 &&
                        std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
    const int number = digits ? std::stoi(port) : -1;
    if (!address.host.empty() && number >= 0 && number <= 65535) {
      address.port = static_cast<std::uint16_t>(number);
      return address;
    }
  }
  throw UserError("\"" + text + "\" is no address; write HOST:PORT, as 192.0.2.7:4242");
}

std::string to_string(const Address& address) {
  const bool six = address.host.find(':') != std::string::npos;
  return (six ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

bool is_loopback(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  if (host == "localhost") return true;
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  return inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

}  // namespace cleave::comm
