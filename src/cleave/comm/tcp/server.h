#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cleave/comm/tcp/registry.h"
#include "cleave/comm/tcp/stream.h"

namespace cleave::comm {

/// What a server has to offer.
struct ServerSetup {
  Address listen;
  Registry* registry = nullptr;     ///< null: plaintext, on the loopback interface only
  std::string run;                  ///< handed to every device as it is
  std::string program;              ///< hash of what all devices will run
  std::vector<std::int64_t> needs;  ///< [device] bytes of memory; as many devices as the run has
  int threads = 1;                  ///< that each device needs
  std::function<void(const std::string& line)> log;  ///< called on the server's thread
};

/// How far the run is.
struct RunStatus {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  double loss = 0;
  double step_seconds = 0;
};

/// Where the devices of a run meet: lets them in, tells them of each other, passes on what two of
/// them cannot send directly, and notices at once when one is gone. It works on a thread of its own
/// and computes nothing.
class Server {
 public:
  /// Throws UserError if it cannot listen there.
  explicit Server(ServerSetup setup);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Where it listens; the port that was chosen if port 0 was asked for.
  Address address() const;

  /// What the device in the server's own process shows to become device 0.
  const std::string& own_key() const;

  /// For those who ask.
  void publish(const RunStatus& status);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cleave::comm
