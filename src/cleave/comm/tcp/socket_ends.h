#pragma once

#include <string>

namespace cleave::comm {

/// "192.0.2.7:4242", or "nobody": where the other end of a socket is.
std::string remote_end(int socket);

/// The host by which this end of a socket is known; empty if it is not connected.
std::string host_here(int socket);

/// Suits a connected socket to having both ends on this machine, if it has under one address.
void fit_within_machine(int socket);

}  // namespace cleave::comm
