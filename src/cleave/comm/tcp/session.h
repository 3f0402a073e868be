#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "cleave/comm/tcp/letter_box.h"
#include "cleave/comm/tcp/stream.h"

namespace cleave::comm {

/// One connection as the server has it: letters that can be awaited. Only .cpp files of comm/tcp
/// include this.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(asio::io_context& context, Stream stream, std::uint64_t longest_letter);
  ~Session();

  /// Ends the session unless allow() comes first. However slowly bytes trickle in, the time is up.
  void limit(std::chrono::steady_clock::duration time);
  void allow();

  asio::awaitable<void> open();
  asio::awaitable<Letter> next();
  asio::awaitable<void> send(Letter letter);

  /// Sends in the background.
  void post(Letter letter);

  /// Copies all that comes from here to `other`, until one of them ends; `count` hears how much.
  asio::awaitable<void> pass_on_to(Session& other,
                                   const std::function<void(std::size_t bytes)>& count);

  /// Whoever waits for it is told that it is over.
  void close();

  Stream& stream() { return stream_; }
  LetterBox& letters() { return letters_; }
  const std::string& remote() const { return remote_; }
  bool was_late() const { return late_; }

 private:
  asio::awaitable<void> ready();
  asio::awaitable<void> flush();

  asio::io_context& context_;
  Stream stream_;
  asio::posix::stream_descriptor waiter_;
  asio::steady_timer deadline_;
  LetterBox letters_;
  std::string remote_;
  bool late_ = false;
  bool flushing_ = false;
};

}  // namespace cleave::comm
