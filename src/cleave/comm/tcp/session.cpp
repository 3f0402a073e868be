#include "cleave/comm/tcp/session.h"

#include <utility>
#include <vector>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/use_awaitable.hpp>
#include <sys/socket.h>

namespace cleave::comm {
namespace {

constexpr std::size_t kPassedOn = 256 * 1024;

}  // namespace

Session::Session(asio::io_context& context, Stream stream, std::uint64_t longest_letter)
    : context_(context),
      stream_(std::move(stream)),
      waiter_(context, stream_.socket()),
      deadline_(context),
      letters_(longest_letter),
      remote_(stream_.remote()) {}

// The stream closes the socket.
Session::~Session() {
  waiter_.release();
}

void Session::limit(std::chrono::steady_clock::duration time) {
  deadline_.expires_after(time);
  deadline_.async_wait([self = weak_from_this()](const asio::error_code& error) {
    const std::shared_ptr<Session> session = self.lock();
    if (error || !session) return;
    session->late_ = true;
    session->close();
  });
}

void Session::allow() {
  deadline_.cancel();
}

void Session::close() {
  shutdown(stream_.socket(), SHUT_RDWR);
}

asio::awaitable<void> Session::ready() {
  using asio::posix::stream_descriptor;
  co_await waiter_.async_wait(
      stream_.awaits_room() ? stream_descriptor::wait_write : stream_descriptor::wait_read,
      asio::use_awaitable);
}

asio::awaitable<void> Session::open() {
  while (!stream_.open()) co_await ready();
}

asio::awaitable<Letter> Session::next() {
  for (;;) {
    if (std::optional<Letter> letter = letters_.take(stream_)) co_return std::move(*letter);
    co_await ready();
  }
}

asio::awaitable<void> Session::flush() {
  flushing_ = true;
  while (!letters_.flush(stream_))
    co_await waiter_.async_wait(asio::posix::stream_descriptor::wait_write, asio::use_awaitable);
  flushing_ = false;
}

asio::awaitable<void> Session::send(Letter letter) {
  letters_.put(letter);
  if (!flushing_) co_await flush();
}

void Session::post(Letter letter) {
  letters_.put(letter);
  if (flushing_) return;
  flushing_ = true;
  // It begins later, when nobody else may know the session any more. Should the connection break,
  // whoever reads from it notices.
  asio::co_spawn(
      context_, [self = shared_from_this()] { return self->flush(); }, asio::detached);
}

asio::awaitable<void> Session::pass_on_to(Session& other,
                                          const std::function<void(std::size_t bytes)>& count) {
  std::vector<std::byte> buffer(kPassedOn);
  for (;;) {
    const std::size_t read = stream_.read(buffer);
    if (read == 0) co_await ready();
    count(read);
    for (std::size_t at = 0; at < read;) {
      const std::size_t written = other.stream_.write(std::span(buffer).first(read).subspan(at));
      at += written;
      if (written == 0)
        co_await other.waiter_.async_wait(asio::posix::stream_descriptor::wait_write,
                                          asio::use_awaitable);
    }
  }
}

}  // namespace cleave::comm
