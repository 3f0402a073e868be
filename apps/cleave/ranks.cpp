#include "ranks.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "command.h"
#include "streams.h"
#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/comm/mpi/session.h"
#include "cleave/comm/together.h"

namespace cleave::app {
namespace {

/// A rank that waits for a dead one says so before mpirun kills it.
void end_waits(int signal) {
  comm::end_mpi_waits();
  std::signal(signal, SIG_DFL);
}

comm::MpiPatience start_patience(std::chrono::nanoseconds asked) {
  const auto patience = std::max<std::chrono::nanoseconds>(asked, kLeastStartPatience);
  const auto late = [patience] {
    complain(
        "cleave: MPI has not started, or not ended, within {}: a rank does not answer; raise "
        "--patience if this machine is slow\n",
        format_seconds(std::chrono::duration<double>(patience).count()));
    std::_Exit(static_cast<int>(Exit::DeviceLost));
  };
  return {.patience = patience, .late = late};
}

}  // namespace

void on_ranks(const std::function<void(comm::Launcher& launcher)>& work,
              std::chrono::nanoseconds patience) {
  if (!comm::launched_by_mpi()) {
    comm::LocalLauncher launcher;
    return work(launcher);
  }
  // MPI asks hwloc for the machine, and hwloc an OpenCL driver, which may bring signal handlers of
  // its own: SIGUSR1 would never reach ours.
  ::setenv("HWLOC_COMPONENTS", "-opencl", 0);
  comm::MpiSession session(start_patience(patience));
  std::signal(SIGTERM, end_waits);
  const auto world = session.world();
  comm::ProcessLauncher launcher(*world);
  // A rank must not die alone: the others would wait for it for ever.
  try {
    work(launcher);
  } catch (const comm::PeerFailed&) {
    // The peer says what is wrong, and its exit code is the job's.
  } catch (const std::exception& error) {
    complain("cleave: rank {}: {}\n", world->rank(), sentence_of(error));
    comm::MpiSession::abort(static_cast<int>(exit_code_of(error)));
  }
}

void check_devices(std::optional<int> devices, const comm::Launcher& launcher) {
  if (!devices) return;
  require(*devices >= 1, "--devices ", *devices, " must be at least 1");
  require(*devices == launcher.devices().value_or(*devices), "--devices ", *devices,
          " contradicts the processes that mpirun or srun started; leave it out");
}

}  // namespace cleave::app
