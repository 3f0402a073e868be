// In place of what talks over MPI where cleave is built without it.

#include "cleave/base/check.h"
#include "cleave/comm/mpi/session.h"

namespace cleave::comm {

std::string mpi_version() {
  return {};
}

void end_mpi_waits() noexcept {}

MpiSession::MpiSession(MpiPatience /*patience*/) {
  throw UserError(
      "mpirun or srun started this process, and this cleave was built without MPI; install "
      "libopenmpi-dev and build it anew with CLEAVE_MPI=ON, or start it alone: devices are then "
      "threads, or join over a network (cleave serve)");
}

MpiSession::~MpiSession() = default;

std::unique_ptr<Communicator> MpiSession::world() {
  CLEAVE_CHECK(false, "a world of ranks without MPI");
  return nullptr;
}

void MpiSession::abort(int exit_code) {
  std::_Exit(exit_code);
}

}  // namespace cleave::comm
