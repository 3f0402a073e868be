#include "cleave/comm/tcp/listener.h"

#include <cerrno>
#include <cstring>
#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/comm/tcp/resolve.h"

namespace cleave::comm {

Listener::Listener(const Address& address) {
  AddressList found;
  try {
    found = resolve(address, AI_PASSIVE);
  } catch (const ConnectionBroken& error) {
    throw UserError(error.what());
  }
  socket_ = new_socket(*found);
  const int on = 1;
  if (socket_ >= 0) setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (socket_ < 0 || bind(socket_, found->ai_addr, found->ai_addrlen) != 0 ||
      listen(socket_, SOMAXCONN) != 0) {
    const std::string why = std::strerror(errno);
    if (socket_ >= 0) ::close(socket_);
    throw UserError("cannot listen on " + to_string(address) + ": " + why +
                    "; choose another address or port");
  }
}

Listener::~Listener() {
  ::close(socket_);
}

std::uint16_t Listener::port() const {
  sockaddr_storage end{};
  socklen_t size = sizeof end;
  getsockname(socket_, reinterpret_cast<sockaddr*>(&end), &size);
  const bool six = end.ss_family == AF_INET6;
  return ntohs(six ? reinterpret_cast<const sockaddr_in6&>(end).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(end).sin_port);
}

std::optional<Stream> Listener::accept(const Tls* tls) {
  const int socket = accept4(socket_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  const int error = socket < 0 ? errno : 0;
  const bool lacks = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  lack_ = lacks ? std::strerror(error) : "";
  if (socket < 0) return std::nullopt;
  return Stream(socket, Stream::Role::Accepts, tls);
}

}  // namespace cleave::comm
