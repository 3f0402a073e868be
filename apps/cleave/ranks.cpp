#include "ranks.h"

#include <csignal>

#include "command.h"
#include <fmt/format.h>

#include "cleave/comm/mpi/session.h"
#include "cleave/comm/together.h"

namespace cleave::app {
namespace {

/// A rank that waits for a dead one says so before mpirun kills it.
void end_waits(int signal) {
  comm::end_mpi_waits();
  std::signal(signal, SIG_DFL);
}

}  // namespace

void on_ranks(const std::function<void(comm::Launcher& launcher)>& work) {
  if (!comm::launched_by_mpi()) {
    comm::LocalLauncher launcher;
    return work(launcher);
  }
  comm::MpiSession session;
  std::signal(SIGTERM, end_waits);
  const auto world = session.world();
  comm::ProcessLauncher launcher(*world);
  // A rank must not die alone: the others would wait for it for ever.
  try {
    work(launcher);
  } catch (const comm::PeerFailed&) {
    // The peer says what is wrong, and its exit code is the job's.
  } catch (const std::exception& error) {
    fmt::print(stderr, "cleave: rank {}: {}\n", world->rank(), error.what());
    comm::MpiSession::abort(static_cast<int>(exit_code_of(error)));
  }
}

}  // namespace cleave::app
