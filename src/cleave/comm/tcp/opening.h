#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "cleave/comm/exchange_log.h"
#include "cleave/comm/tcp/letter_box.h"
#include "cleave/comm/tcp/server_line.h"
#include "cleave/comm/tcp/stream.h"
#include "cleave/comm/transport.h"

namespace cleave::comm {

/// What two devices tell each other before the first frame. Both ends hold the same program, and
/// say so.
struct Greeting {
  int from = 0;
  int to = 0;
  std::uint32_t epoch = 0;
  std::string program;     ///< hash of what all devices run
  std::uint64_t seen = 0;  ///< the last frame of the other that arrived over earlier connections
  Integrity integrity = Integrity::Checksum;  ///< of the frames to come, as the connection has it
};

/// "checksums", or "the connection".
const char* name_of(Integrity integrity);

Letter letter_of(const Greeting& greeting);

/// Throws ProtocolError, naming versions that differ.
Greeting read_greeting(const Letter& letter);

/// A connection between two devices that is about to become a link: handshake, then greeting and
/// welcome.
class Opening {
 public:
  /// Judges the other end: the last frame seen of it, or ProtocolError with why not.
  using Judge = std::function<std::uint64_t(const Greeting& greeting, const Opening& opening)>;

  Opening(Stream stream, Clock::time_point deadline);                     ///< it called us
  Opening(Stream stream, Greeting greeting, Clock::time_point deadline);  ///< we call

  /// How the other end is reached where the stream leads to the server.
  struct Relay {
    ServerContact server;  ///< nothing is said to another
    Letter request;        ///< by which it is asked to connect the two ends
    int other = kNobody;   ///< the device at the other end
  };
  void go_through_server(Relay relay) { relay_ = std::move(relay); }
  bool relayed() const { return relay_.has_value(); }

  /// The device to which the server connects a relayed opening.
  int vouched() const { return relay_->other; }

  /// TLS vouches for bytes as far as it reaches, which is to the server where that passes them on.
  Integrity integrity() const {
    return stream_.is_authenticated() && !relayed() ? Integrity::Connection : Integrity::Checksum;
  }

  /// True once both ends are satisfied. Throws ConnectionBroken, and ProtocolError when one of them
  /// is not. `judge` is asked on both ends: the caller's greeting is its own with `from` and `to`
  /// exchanged.
  bool advance(const Judge& judge);

  /// Of the other end, once advance() was true.
  const Greeting& greeting() const { return greeting_; }
  Stream release_stream() { return std::move(stream_); }
  FrameReader release_reader() { return letters_.release_reader(); }

  int socket() const { return stream_.socket(); }
  bool awaits_room() const { return stream_.awaits_room(); }
  bool calls() const { return calls_; }
  int callee() const { return callee_; }
  const Stream& stream() const { return stream_; }

 private:
  void begin_letters(const Judge& judge);
  bool answer(const Letter& letter, const Judge& judge);

  Stream stream_;
  bool calls_;
  int callee_ = -1;
  Greeting greeting_;
  Clock::time_point deadline_;
  LetterBox letters_;
  std::optional<Relay> relay_;  ///< nothing: the connection is direct
  enum class At : std::uint8_t { Handshake, Server, Letters, Answered } at_ = At::Handshake;
};

}  // namespace cleave::comm
