#include "support/other_address.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cleave::testing {
namespace {

sockaddr_in name_of(const char* host, std::uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  inet_pton(AF_INET, host, &name.sin_addr);
  return name;
}

template <class Call>
void call(Call call, int socket, sockaddr_in name, const char* what) {
  if (call(socket, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0)
    throw std::runtime_error(what);
}

/// False once one of the two is closed.
bool pass_on(int from, int to) {
  std::array<char, 65'536> buffer;
  const ssize_t count = ::recv(from, buffer.data(), buffer.size(), 0);
  for (ssize_t at = 0; at < count;) {
    const ssize_t sent =
        ::send(to, buffer.data() + at, static_cast<std::size_t>(count - at), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
  }
  return count > 0;
}

}  // namespace

OtherAddress::OtherAddress(std::uint16_t port)
    : target_(port), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
  call(::bind, listener_, name_of("127.0.0.1", 0), "bind");
  if (::listen(listener_, SOMAXCONN) != 0) throw std::runtime_error("listen");
  thread_ = std::thread([this] { run(); });
}

OtherAddress::~OtherAddress() {
  stop_ = true;
  thread_.join();
  for (const auto& [near, far] : ways_) ::close(near), ::close(far);
  ::close(listener_);
}

std::string OtherAddress::address() const {
  sockaddr_in name{};
  socklen_t size = sizeof name;
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&name), &size);
  return "127.0.0.1:" + std::to_string(ntohs(name.sin_port));
}

void OtherAddress::accept() {
  const int near = ::accept(listener_, nullptr, nullptr);
  const int far = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  for (const int end : {near, far}) ::setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  try {
    call(::bind, far, name_of("127.0.0.9", 0), "bind");
    call(::connect, far, name_of("127.0.0.1", target_), "connect");
    ways_.emplace_back(near, far);
  } catch (const std::runtime_error&) {  // nobody listens there any more
    ::close(near);
    ::close(far);
  }
}

void OtherAddress::run() {
  while (!stop_) {
    std::vector<pollfd> polled = {{.fd = listener_, .events = POLLIN, .revents = 0}};
    for (const auto& [near, far] : ways_)
      for (const int end : {near, far})
        polled.push_back({.fd = end, .events = POLLIN, .revents = 0});
    if (::poll(polled.data(), polled.size(), 50) <= 0) continue;
    std::vector<std::pair<int, int>> open;
    for (std::size_t i = 0; i < ways_.size(); ++i) {
      const auto [near, far] = ways_[i];
      const bool whole = (polled[2 * i + 1].revents == 0 || pass_on(near, far)) &&
                         (polled[2 * i + 2].revents == 0 || pass_on(far, near));
      if (whole) open.emplace_back(near, far);
      if (!whole) ::close(near), ::close(far);
    }
    ways_ = std::move(open);
    if (polled[0].revents != 0) accept();
  }
}

}  // namespace cleave::testing
