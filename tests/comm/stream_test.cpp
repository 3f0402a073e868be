#include "cleave/comm/tcp/stream.h"

#include <optional>

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "cleave/comm/tcp/listener.h"

namespace cleave::comm {
namespace {

int send_buffer(const Stream& stream) {
  int bytes = 0;
  socklen_t size = sizeof bytes;
  getsockopt(stream.socket(), SOL_SOCKET, SO_SNDBUF, &bytes, &size);
  return bytes;
}

// Left to itself the system lets megabytes pile up, which leave the cache before they are read.
TEST(Stream, HasLittleOnItsWayWithinOneMachine) {
  Listener listener({"127.0.0.1", 0});
  Stream calls = Stream::connect({"127.0.0.1", listener.port()}, nullptr);
  std::optional<Stream> called;
  while (!called) called = listener.accept(nullptr);
  while (!calls.open() || !called->open()) continue;

  EXPECT_LE(send_buffer(calls), 512 * 1024);
  EXPECT_LE(send_buffer(*called), 512 * 1024);
}

}  // namespace
}  // namespace cleave::comm
