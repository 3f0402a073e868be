#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "cleave/comm/communicator.h"
#include "cleave/comm/mpi/block_watch.h"

namespace cleave::comm {

/// Whether mpirun or srun started this process as one of its ranks, told by its environment alone:
/// a run without them never touches MPI. Throws UserError under an srun that offers no MPI.
bool launched_by_mpi(char* (*environment)(const char*) = std::getenv);

/// The name and version of the MPI library, empty in a build without one; may be asked without a
/// session.
std::string mpi_version();

/// Makes every wait for another rank throw DeviceLost that says what it was for. For the handler of
/// SIGTERM: mpirun sends it to the survivors when a rank has died, a second before it kills them.
void end_mpi_waits() noexcept;

/// Starts MPI on construction and ends it on destruction. Make at most one, before any other thread
/// talks; only the thread that made it may communicate. A build without MPI throws UserError.
class MpiSession {
 public:
  /// `patience` is for its start and its end, and for every group of ranks that is made between.
  explicit MpiSession(MpiPatience patience = {});
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// The group of all ranks, for this rank. Must not outlive the session.
  std::unique_ptr<Communicator> world();

  /// Ends every rank of the job; mpirun exits with `exit_code`. For the top-level catch of a rank,
  /// after it said what happened: one that merely returns leaves the others waiting for ever.
  [[noreturn]] static void abort(int exit_code);

 private:
  MpiPatience patience_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace cleave::comm
