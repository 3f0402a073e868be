#include "cleave/comm/tcp/socket_ends.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "cleave/comm/tcp/address.h"

namespace cleave::comm {
namespace {

// What may be on its way to a program on this machine. It has no distance to fill: with more, the
// system's copies of bytes that are sent leave the cache before they are read. With less, the two
// ends wait for each other.
constexpr int kSentToThisMachine = 512 * 1024;

// Every Linux has this control of congestion, which sends what there is room for at once. Others
// pace: bbr sets timers between packets, which within one machine take longer than the packets.
constexpr std::string_view kCongestionControl = "reno";

std::string name_of_end(const sockaddr_storage& end, socklen_t size, bool with_port) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&end), size, host, sizeof host, port,
                  sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  if (!with_port) return host;
  return to_string({host, static_cast<std::uint16_t>(std::atoi(port))});
}

/// The host at one end of a socket, by getsockname() or getpeername(); empty if there is none.
std::string host_at(int socket, int (*get_name)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage end{};
  socklen_t size = sizeof end;
  if (get_name(socket, reinterpret_cast<sockaddr*>(&end), &size) != 0) return "";
  return name_of_end(end, size, false);
}

}  // namespace

std::string remote_end(int socket) {
  sockaddr_storage end{};
  socklen_t size = sizeof end;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&end), &size) != 0) return "nobody";
  return name_of_end(end, size, true);
}

std::string host_here(int socket) {
  return host_at(socket, getsockname);
}

void fit_within_machine(int socket) {
  const std::string other = host_at(socket, getpeername);
  if (other.empty() || other != host_here(socket)) return;
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kSentToThisMachine, sizeof kSentToThisMachine);
  setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kCongestionControl.data(),
             kCongestionControl.size());
}

}  // namespace cleave::comm
