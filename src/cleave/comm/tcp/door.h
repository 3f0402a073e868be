#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "cleave/comm/exchange_log.h"
#include "cleave/comm/tcp/listener.h"
#include "cleave/comm/tcp/registry.h"
#include "cleave/comm/tcp/session.h"

namespace cleave::comm {

/// What a connection may want, by the first field of its first letter.
struct Request {
  const char* name;
  std::size_t fields;  ///< of the letter
  std::function<asio::awaitable<void>(std::shared_ptr<Session> session, const Letter& letter)>
      answer;
};

struct DoorSetup {
  Address listen;
  Registry* registry = nullptr;                                  ///< null: plaintext
  Clock::duration first_word_within = std::chrono::seconds(10);  ///< the whole first letter
  std::vector<Request> requests;
  std::function<void(const std::string& line)> log;
  std::function<void(const Session& session, const std::string& why)> on_end;  ///< of a connection
};

/// Where connections come in. Finds out who they are, hears what they want, has it answered, and
/// refuses the rest by name. Gives certificates to those who may have one. Only .cpp files of
/// comm/tcp include this.
class Door {
 public:
  /// Throws UserError if it cannot listen there.
  Door(asio::io_context& context, DoorSetup setup);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  std::uint16_t port() const { return listener_.port(); }

  /// The fingerprint of the certificate that the other end shows; empty without TLS. Throws Refusal
  /// if it shows none.
  std::string fingerprint_of(Session& session) const;

  /// Why a device that shows such a certificate is not let in any more; empty if it is, as it is
  /// without TLS.
  std::string fault_of(const std::string& fingerprint) const;

 private:
  asio::awaitable<void> accept();
  asio::awaitable<void> await_room();
  asio::awaitable<void> serve(std::shared_ptr<Session> session);
  asio::awaitable<void> answer(std::shared_ptr<Session> session, const Letter& letter);
  asio::awaitable<void> enrol(std::shared_ptr<Session> session, const Letter& letter);
  asio::awaitable<void> renew(std::shared_ptr<Session> session, const Letter& letter);
  void welcome(Stream stream);
  /// How far a connection has come.
  enum class Stage : std::uint8_t { Opening, Listening, Answering };
  void note_end(const std::shared_ptr<Session>& session, Stage stage, const std::string& who,
                const std::string& why) const;
  void identify(Session& session, std::string& who) const;

  asio::io_context& context_;
  DoorSetup setup_;
  std::optional<Tls> tls_;
  Listener listener_;
  asio::posix::stream_descriptor waiter_;
  std::deque<std::weak_ptr<Session>> strangers_;
  bool lacks_room_ = false;  ///< and has said so
};

}  // namespace cleave::comm
