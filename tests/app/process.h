#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "app/run_cleave.h"
#include "support/temporary_directory.h"
#include <sys/types.h>

namespace cleave::testing {

/// A program that runs beside the test, in its own session. Killed with all it started if the test
/// leaves before its end.
class Process {
 public:
  explicit Process(const std::vector<std::string>& command);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }

  /// Ranks, if the program is mpirun.
  std::vector<pid_t> children() const;

  void signal(int number) const;

  /// What it printed so far.
  std::string out() const { return read_text(directory_.path("out")); }
  std::string err() const { return read_text(directory_.path("err")); }

  /// True once stdout or stderr has `text`; false if that takes too long or the program ended.
  bool prints(const std::string& text, std::chrono::seconds patience = std::chrono::seconds(20));

  /// As a shell: 128 + signal for a killed program; -1 if it does not end in time.
  Answer wait(std::chrono::seconds patience = std::chrono::seconds(30));

 private:
  bool ended();

  TemporaryDirectory directory_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

/// Whether a process that is not ours ends within a moment; one that only waits to be reaped has.
bool ends(pid_t pid);

/// The command of `cleave` with arguments, alone or on `ranks` real MPI processes.
std::vector<std::string> cleave_command(std::vector<std::string> arguments, int ranks = 0);

/// Runs it to its end.
Answer run(const std::vector<std::string>& command);

}  // namespace cleave::testing
