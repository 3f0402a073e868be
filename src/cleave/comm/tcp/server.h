#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cleave/comm/tcp/registry.h"
#include "cleave/comm/tcp/stream.h"
#include "cleave/comm/transport.h"

namespace cleave::comm {

/// Whether devices may come when the run has begun.
enum class Latecomers : std::uint8_t { Refused, Welcome };

/// What a server has to offer.
struct ServerSetup {
  Address listen;
  Registry* registry = nullptr;     ///< null: plaintext, on the loopback interface only
  std::vector<std::int64_t> needs;  ///< [device] bytes of memory, of the devices of the first epoch
  int threads = 1;                  ///< that each device needs
  /// [device] whose it is; those of device 0's owner are in the server's own process. Empty: they
  /// are nobody's in particular, and only device 0 is there.
  std::vector<std::string> owners = {};
  Latecomers latecomers = Latecomers::Refused;
  Clock::duration first_word_within = std::chrono::seconds(10);  ///< of a connection
  std::function<void(const std::string& line)> log;              ///< called on the server's thread
};

/// A device that can take part in the next epoch.
struct Candidate {
  std::int64_t seat = 0;  ///< 0: the one in the server's own process; below: further ones there
  std::string name;
  std::string owner;        ///< whose it is; empty: nobody's in particular
  std::int64_t memory = 0;  ///< bytes that it offers; 0: as many as are needed
};

/// What some of the devices that are here do next, together.
struct EpochSetup {
  std::string run;                  ///< handed to every device as it is
  std::string program;              ///< hash of what all devices will run
  std::vector<std::int64_t> seats;  ///< [device]
  std::string signature = {};       ///< of the server, on what devices can work out themselves
};

/// Something that happened to a device.
struct MemberEvent {
  enum class Kind : std::uint8_t { Joined, Left, Lost };
  Kind kind = Kind::Joined;
  std::string device;  ///< its name
  std::string text;    ///< a sentence
  Clock::time_point at = Clock::now();
};

const char* to_string(MemberEvent::Kind kind);

/// What is known of the way between two devices of the present epoch.
struct LinkStatus {
  int first = 0;
  int second = 0;
  double latency = 0;   ///< seconds that a message takes on its way
  double per_byte = 0;  ///< seconds
};

/// How far the run is.
struct RunStatus {
  int plan = 0;  ///< counted from 1; 0: there is none yet
  std::int64_t step = 0;
  std::int64_t steps = 0;
  double loss = 0;
  double step_seconds = 0;
  std::string layout;
  std::vector<LinkStatus> links = {};
  std::vector<std::string> parts = {};  ///< [device] what it has of the model
  std::string lack = {};                ///< what the next plan waits for, if not for who is here
};

/// Where the devices of a run meet: lets them in, tells them of each other, passes on what two of
/// them cannot send directly, and notices when one is gone: at once if its connection closes, else
/// by its silence. It works on a thread of its own and computes nothing; all that follows may be
/// called from another.
class Server {
 public:
  /// Throws UserError if it cannot listen there.
  explicit Server(ServerSetup setup);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Where it listens; the port that was chosen if port 0 was asked for.
  Address address() const;

  /// What devices in the server's own process show to become device 0, and others of its owner.
  const std::string& own_key() const;

  /// Waits until no device is at work any more and at least `least` are ready; the server's own
  /// comes first, then they come in the order in which they joined. Those who still work after
  /// `patience` count as lost. Empty once `gives_up` says so.
  std::vector<Candidate> await_ready(std::size_t least, Clock::duration patience,
                                     const std::function<bool()>& gives_up);

  /// All must be ready.
  void begin(const EpochSetup& epoch);

  /// Whether somebody has joined since await_ready() said who was there.
  bool has_newcomers() const;

  /// What happened since this was asked last.
  std::vector<MemberEvent> take_events();

  /// How long a device may be silent before it counts as lost.
  void set_silence(Clock::duration longest);

  /// For those who ask.
  void publish(const RunStatus& status);

  /// Tells all devices that the run is over, and waits a moment until they have left. `failure`:
  /// why, if not because all is done.
  void end(const std::string& failure);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cleave::comm
