#pragma once

#include <string>

#include "cleave/schedule/program.h"

/// A second opinion on programs, which shares no code with the verifier: it runs them. Devices
/// execute their lists on symbolic values (which activation, which gradient contributions, which
/// bytes of memory are whose), messages meet by rendezvous, and anything that would hang, read the
/// wrong thing or end with a wrong gradient is a fault. Slow and plain on purpose.
namespace cleave::schedule::oracle {

/// Whether messages are instructions, or implied by the edges and buffered.
enum class Messages { Explicit, Implied };

/// One run, devices taking turns in an order drawn from `seed`. Empty, or what went wrong.
std::string run(const Program& program, Messages messages, unsigned seed);

/// Every interleaving of the devices. Empty, or what goes wrong in one of them. For small programs:
/// visits up to the product of the lists' lengths.
std::string run_all(const Program& program, Messages messages);

}  // namespace cleave::schedule::oracle
