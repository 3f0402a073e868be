#include "cleave/comm/tcp/resolve.h"

#include <cerrno>
#include <string>

#include <sys/socket.h>
#include <unistd.h>

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

Dialling::Dialling(const std::vector<Address>& addresses) : error_(EADDRNOTAVAIL) {
  for (const Address& address : addresses) lists_.push_back(resolve(address, 0));
  if (!lists_.empty()) next_ = lists_[0].get();
}

int Dialling::next_socket() {
  while (next_ != nullptr) {
    const addrinfo& at = *next_;
    next_ = at.ai_next;
    if (next_ == nullptr && ++list_ < lists_.size()) next_ = lists_[list_].get();
    const int socket = new_socket(at);
    if (socket < 0) continue;
    if (::connect(socket, at.ai_addr, at.ai_addrlen) == 0 || errno == EINPROGRESS) return socket;
    error_ = errno;
    ::close(socket);
  }
  return -1;
}

}  // namespace cleave::comm
