#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cleave/comm/communicator.h"

namespace cleave::comm {

/// Another device has failed and says so itself; this one ends and need not say anything.
class PeerFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs `act` on every member of `world`. If it throws on some of them, this throws on all: on the
/// first of those the exception itself, on all others PeerFailed. So what is wrong is said once,
/// and nobody waits for a device that has ended.
void together(Communicator& world, const std::function<void()>& act);

/// `text` of member 0, to everyone.
void broadcast(Communicator& world, std::string& text);

/// [member] the text of each, on everyone.
std::vector<std::string> gather(Communicator& world, const std::string& text);

}  // namespace cleave::comm
