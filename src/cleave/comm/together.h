#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cleave/comm/communicator.h"

namespace cleave::comm {

/// Another device has failed and says so itself; this one leaves without a word.
class PeerFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs `act` on every member of `world`. If it throws on some of
/// them, it throws on all: the first of those its own exception, everybody else PeerFailed. So that
/// what is wrong is said once, and nobody waits for a device that has left.
void together(Communicator& world, const std::function<void()>& act);

/// `text` of member 0, to everyone.
void broadcast(Communicator& world, std::string& text);

/// [member] the text of each, on everyone.
std::vector<std::string> gather(Communicator& world, const std::string& text);

}  // namespace cleave::comm
