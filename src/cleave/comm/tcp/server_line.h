#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/comm/exchange_log.h"
#include "cleave/comm/tcp/letter_box.h"
#include "cleave/comm/tcp/stream.h"

namespace cleave::comm {

/// How to reach a server and know that it is the right one.
struct ServerContact {
  Address address;
  const Tls* tls = nullptr;  ///< null: plaintext
  std::string fingerprint;   ///< of its certificate, with TLS
};

/// A server cannot be reached, or not any more.
class ServerGone : public DeviceLost {
 public:
  enum class Before : std::uint8_t { WordWasHeard, NothingWasHeard, NobodyAnswered };
  ServerGone(const std::string& what, Before before) : DeviceLost(what), before_(before) {}

  /// Whether it had answered before, over the connection that broke.
  bool had_answered() const { return before_ == Before::WordWasHeard; }

  /// Whether nobody is at the address, so that it may only have to be started.
  bool may_come() const { return before_ == Before::NobodyAnswered; }

 private:
  Before before_;
};

/// What a device offers when it joins.
struct Offer {
  std::string name;
  std::int64_t memory = 0;  ///< bytes; 0: as much as is needed
  int threads = 0;          ///< 0: as many as are needed
  std::uint16_t port = 0;   ///< where other devices can call it
  std::string key;          ///< Server::own_key() in its own process, else empty
  std::string owner;        ///< whose it is; empty: nobody's in particular
};

/// Where another device can be reached, and how to know that it is the right one.
struct TcpPeer {
  Address address;
  std::string fingerprint;  ///< of its certificate; empty: there is no TLS
};

/// What a device is told when an epoch begins.
struct Assignment {
  std::uint32_t epoch = 0;
  int device = 0;
  std::string run;
  std::string program;
  std::string signature;       ///< EpochSetup::signature
  std::vector<TcpPeer> peers;  ///< [device]
};

/// One letter to the server and its answer, over a connection of its own. Throws UserError if it
/// refuses, and ServerGone if it cannot be reached or is not the one that was expected.
Letter ask_server(const ServerContact& server, Letter question);

/// A device's standing connection to the server. say() may be called from another thread.
class ServerLine {
 public:
  /// Hears how many devices are still to come.
  using OnWaiting = std::function<void(int to_come)>;

  /// A server answers at once; one that says nothing for `first_word_within` is none.
  explicit ServerLine(ServerContact server,
                      Clock::duration first_word_within = std::chrono::seconds(15))
      : server_(std::move(server)), first_word_within_(first_word_within) {}

  /// Connects. Throws ServerGone if it cannot, or if it is not the server that was expected.
  void open();

  /// Of this machine, as the server sees it; once the line is open.
  std::string local_host() const { return stream_->local_host(); }

  void join(const Offer& offer);

  /// Waits until an epoch begins in which this device takes part; nothing once the run is over, or
  /// `gives_up` says so. Throws UserError if the server refuses, ServerGone if it is gone, or has
  /// never said anything.
  std::optional<Assignment> await_epoch(const OnWaiting& on_waiting,
                                        const std::function<bool()>& gives_up = {});

  /// Reads what has come. Never waits.
  void advance();

  /// What the server has not taken yet goes with the next letter.
  void say(const Letter& letter);

  /// A device that asks the server to connect it to this one.
  struct Call {
    std::string number;  ///< by which it is answered
    int from = 0;        ///< the device that calls; the server has checked that it is
  };

  /// Those that wait for an answer.
  std::vector<Call> take_calls() { return std::exchange(calls_, {}); }

  /// Why the present epoch cannot be finished; empty while it can.
  const std::string& epoch_over() const { return epoch_over_; }

  /// Why the run has failed, if the server says that it has.
  const std::string& failure() const { return failure_; }

  const ServerContact& server() const { return server_; }
  int socket() const;

 private:
  std::optional<Letter> take();
  bool read_news(const Letter& letter);

  ServerContact server_;
  Clock::duration first_word_within_;
  mutable std::mutex mutex_;  ///< over what the next two do
  std::optional<Stream> stream_;
  LetterBox letters_{kLongestLetter};
  ServerGone::Before before_ = ServerGone::Before::NothingWasHeard;
  std::vector<Call> calls_;
  std::uint32_t epoch_ = 0;
  std::string epoch_over_;
  bool run_over_ = false;
  std::string failure_;
};

/// Tells the server twice a second that this program is alive, whatever else it does.
class Pulse {
 public:
  explicit Pulse(ServerLine& line);
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable end_;
  bool ended_ = false;
  std::thread thread_;  ///< last: it uses the others
};

/// Throws ProtocolError unless the other end of `stream` is the server.
void check_is_server(const Stream& stream, const ServerContact& server);

}  // namespace cleave::comm
