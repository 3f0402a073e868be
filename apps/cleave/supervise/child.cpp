#include "supervise/child.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleave/base/check.h"

namespace cleave::app {
namespace {

// Signal handlers reach nothing else.
std::atomic<pid_t> child = 0;
std::atomic<int> told = 0;  // the signal that said to end

void pass_on(int signal) {
  told = signal;
  if (child > 0) kill(child, signal);
}

void pass_signals_on() {
  struct sigaction action = {};
  action.sa_handler = pass_on;
  sigemptyset(&action.sa_mask);
  for (const int signal : std::array{SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
}

}  // namespace

int run_child(const std::vector<std::string>& words) {
  pass_signals_on();
  // mpirun asks hwloc for the machine, and an OpenCL driver that hwloc loads may take SIGUSR1.
  ::setenv("HWLOC_COMPONENTS", "-opencl", 0);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t started = 0;
  const int error =
      posix_spawnp(&started, arguments[0], nullptr, nullptr, arguments.data(), environ);
  require(error == 0, "cannot start ", words.front(), ": ", std::strerror(error));
  child = started;
  // One that came before the child was known was for it as well.
  if (const int signal = told; signal != 0) kill(started, signal);
  int status = 0;
  while (waitpid(started, &status, 0) < 0 && errno == EINTR) continue;
  child = 0;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool was_told_to_end() {
  return told != 0;
}

}  // namespace cleave::app
