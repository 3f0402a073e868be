#include "cleave/comm/tcp/resolve.h"

#include <string>

#include <sys/socket.h>

#include "cleave/comm/tcp/stream.h"

namespace cleave::comm {

AddressList resolve(const Address& address, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (code != 0) throw ConnectionBroken("cannot find " + address.host + ": " + gai_strerror(code));
  return AddressList(found);
}

int new_socket(const addrinfo& at) {
  return ::socket(at.ai_family, at.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at.ai_protocol);
}

}  // namespace cleave::comm
