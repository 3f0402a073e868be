#pragma once

#include <string>

namespace cleave::comm {

/// "192.0.2.7:4242", or "nobody": where the other end of a socket is.
std::string remote_end(int socket);

/// The host by which this end of a socket is known; empty if it is not connected.
std::string host_here(int socket);

/// Whether both ends of a socket that is connected are on this machine, under one address.
bool is_within_machine(int socket);

}  // namespace cleave::comm
