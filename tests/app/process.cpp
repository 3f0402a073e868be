#include "app/process.h"

#include <cerrno>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "support/paths.h"
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cleave::testing {
namespace {

using Clock = std::chrono::steady_clock;

void redirect(const std::string& path, int descriptor) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ::dup2(file, descriptor) < 0) _exit(126);
  ::close(file);
}

}  // namespace

Process::Process(const std::vector<std::string>& command) {
  const std::string out = directory_.path("out");
  const std::string err = directory_.path("err");
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ > 0) return;
  ::setsid();
  redirect("/dev/null", STDIN_FILENO);
  redirect(out, STDOUT_FILENO);
  redirect(err, STDERR_FILENO);
  ::execvp(arguments[0], arguments.data());
  _exit(127);
}

Process::~Process() {
  if (ended()) return;
  for (const pid_t child : children()) ::kill(child, SIGKILL);
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::vector<pid_t> Process::children() const {
  const std::string id = std::to_string(pid_);
  std::ifstream list("/proc/" + id + "/task/" + id + "/children");
  std::vector<pid_t> found;
  for (pid_t child = 0; list >> child;) found.push_back(child);
  return found;
}

void Process::signal(int number) const {
  ::kill(pid_, number);
}

bool Process::ended() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

bool Process::prints(const std::string& text, std::chrono::seconds patience) {
  const auto has = [&] {
    return out().find(text) != std::string::npos || err().find(text) != std::string::npos;
  };
  const auto deadline = Clock::now() + patience;
  while (!has()) {
    if (ended() || Clock::now() > deadline) return has();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

Answer Process::wait(std::chrono::seconds patience) {
  const auto deadline = Clock::now() + patience;
  while (!ended() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const int code = !ended_              ? -1
                   : WIFEXITED(status_) ? WEXITSTATUS(status_)
                                        : 128 + WTERMSIG(status_);
  return {.exit = code, .out = out(), .err = err()};
}

bool ends(pid_t pid) {
  const auto deadline = Clock::now() + std::chrono::seconds(3);
  while (Clock::now() < deadline) {
    const std::string stat = read_text("/proc/" + std::to_string(pid) + "/stat");
    const auto name_end = stat.rfind(") ");
    if (name_end == std::string::npos || stat[name_end + 2] == 'Z') return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

std::vector<std::string> cleave_command(std::vector<std::string> arguments, int ranks) {
  std::vector<std::string> command;
  if (ranks > 0) command = {"mpirun", "-np", std::to_string(ranks)};
  command.push_back(cleave_binary());
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

Answer run(const std::vector<std::string>& command) {
  return Process(command).wait(std::chrono::seconds(50));
}

}  // namespace cleave::testing
