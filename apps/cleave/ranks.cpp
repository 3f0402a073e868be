#include "ranks.h"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>

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

/// Ends the process if MPI does not start in time. A rank that is stopped before it has said
/// anything keeps the others inside of MPI, where none of them can look up.
class StartWatch {
 public:
  explicit StartWatch(std::chrono::nanoseconds patience)
      : thread_([this, patience] { watch(patience); }) {}
  ~StartWatch() {
    {
      const std::lock_guard lock(mutex_);
      started_ = true;
    }
    news_.notify_one();
    thread_.join();
  }
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  // In short turns, so that the time for which the whole job is suspended does not count.
  void watch(std::chrono::nanoseconds patience) {
    constexpr std::chrono::milliseconds kTurn{100};
    std::unique_lock lock(mutex_);
    for (std::chrono::nanoseconds waited{}; waited < patience; waited += kTurn) {
      if (news_.wait_for(lock, kTurn, [&] { return started_; })) return;
    }
    const std::chrono::duration<double> seconds = patience;
    complain(
        "cleave: MPI has not started within {}: a rank does not answer; raise --patience if "
        "this machine starts slowly\n",
        format_seconds(seconds.count()));
    std::_Exit(static_cast<int>(Exit::DeviceLost));
  }

  std::mutex mutex_;
  std::condition_variable news_;
  bool started_ = false;
  std::thread thread_;  // last: it uses the others
};

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
  std::optional<StartWatch> watch(
      std::in_place, std::max<std::chrono::nanoseconds>(patience, kLeastStartPatience));
  comm::MpiSession session;
  watch.reset();
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
