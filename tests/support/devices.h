#pragma once

#include <functional>

#include "cleave/comm/communicator.h"

namespace cleave::testing {

/// Runs `work` on every device of a run, so that one test serves all transports: on threads, for
/// several numbers of devices (support/local_devices.cpp), or on the MPI ranks of this test program
/// (support/mpi_main.cpp). Link one of the two.
void on_devices(const std::function<void(comm::Communicator&)>& work);

}  // namespace cleave::testing
