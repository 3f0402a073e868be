#include "signals.h"

#include <cerrno>
#include <csignal>
#include <string_view>

#include <unistd.h>

#include "cleave/comm/mpi/session.h"
#include "cleave/train/loop/stop.h"

namespace cleave::app {
namespace {

/// Whether what is said follows a progress line, in whose midst the terminal has put a "^C".
volatile std::sig_atomic_t after_progress = 0;

/// The first signal asks for a graceful stop, the second ends the process as usual. Not so SIGUSR1:
/// a batch system may send it to mpirun and to every rank, so that it arrives twice.
void stop_gracefully(int signal) {
  train::request_stop();
  if (signal == SIGUSR1) return;
  std::signal(signal, SIG_DFL);
  constexpr std::string_view kAnswer =
      "\ncleave: stopping after the step in hand, if one has begun; once more to end at once\n";
  const std::string_view answer = kAnswer.substr(after_progress != 0 ? 0 : 1);
  const int error = errno;  // of what the signal interrupted
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, answer.data(), answer.size());
  errno = error;
}

}  // namespace

void stop_on_usr1() {
  std::signal(SIGPIPE, SIG_IGN);          // whoever reads along may leave; the run goes on
  std::signal(SIGUSR1, stop_gracefully);  // Open MPI forwards it to every rank
}

void stop_on_signals() {
  stop_on_usr1();
  if (comm::launched_by_mpi()) return;
  after_progress = ::isatty(STDERR_FILENO);
  std::signal(SIGINT, stop_gracefully);
  std::signal(SIGTERM, stop_gracefully);
}

}  // namespace cleave::app
