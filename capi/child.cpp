#include "child.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "failure.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cleave::capi {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {
    // Of a caller that has closed a standard stream. The child's streams are put there one by one,
    // and one would be lost below the other.
    if (0 <= number && number <= STDERR_FILENO) {
      number_ = ::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
      ::close(number);
    }
    if (number_ < 0)
      throw Failure(CLEAVE_FAILED, "this process may open no more files; close some");
  }
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

bool is_program(const fs::path& path) {
  return fs::is_regular_file(path) && ::access(path.c_str(), X_OK) == 0;
}

/// $CLEAVE; else the one that was built or installed with this library; else the first on PATH.
std::string find_program() {
  if (const char* const given = std::getenv("CLEAVE"); given != nullptr && *given != '\0')
    return given;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&cleave_version), &info) != 0) {
    const fs::path here = fs::absolute(info.dli_fname).parent_path();
    for (const char* way : {"cleave", "../bin/cleave", "../../bin/cleave"})
      if (is_program(here / way)) return here / way;
  }
  const char* const path = std::getenv("PATH");
  for (std::string rest = path == nullptr ? "" : path; !rest.empty();) {
    const auto end = rest.find(':');
    if (const fs::path here = fs::path(rest.substr(0, end)) / "cleave"; is_program(here))
      return here;
    rest = end == rest.npos ? "" : rest.substr(end + 1);
  }
  throw Failure(CLEAVE_FAILED, "there is no program cleave; put it on PATH, or point CLEAVE at it");
}

/// In the child, where nothing may be allocated: another thread may have had the heap's lock.
[[noreturn]] void become(char* const* words, int out, int err) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::setpgid(0,
            0);  // Control-C on a terminal is for the caller, who passes it on: twice would end it
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGUSR1}) ::signal(signal, SIG_DFL);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execv(words[0], words);
  ::_exit(127);
}

std::string read_all(int descriptor) {
  std::string text;
  char block[4096];
  ::lseek(descriptor, 0, SEEK_SET);
  for (ssize_t got; (got = ::read(descriptor, block, sizeof block)) > 0;)
    text.append(block, static_cast<std::size_t>(got));
  return text;
}

/// Lines as they come, to `on_line` if there is one; returns what it has not heard.
std::string follow(int descriptor, pid_t child, const OnLine& on_line) {
  std::string rest;
  bool stopped = false;
  char block[4096];
  for (;;) {
    const ssize_t got = ::read(descriptor, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    rest.append(block, static_cast<std::size_t>(got));
    // The last line waits for another to follow: it is not for on_line.
    for (auto end = rest.find('\n'); on_line && end != rest.npos && end + 1 < rest.size();
         end = rest.find('\n')) {
      const std::string line = rest.substr(0, end);
      rest.erase(0, end + 1);
      if (!on_line(line) || stopped) continue;
      stopped = true;
      ::kill(child, SIGINT);
    }
  }
  if (rest.ends_with('\n')) rest.pop_back();
  return rest;
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Ended run_program(const std::vector<std::string>& words, const OnLine& on_line) {
  std::string program = find_program();
  std::vector<char*> arguments = {program.data()};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  Descriptor err(::memfd_create("cleave", MFD_CLOEXEC));
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) ends[0] = ends[1] = -1;
  Descriptor from(ends[0]), to(ends[1]);

  const pid_t child = ::fork();
  if (child == 0) become(arguments.data(), to.number(), err.number());
  if (child < 0) throw Failure(CLEAVE_FAILED, "this process may start no other; end some");
  to.close();
  Ended ended{.out = follow(from.number(), child, on_line)};
  ended.status = wait_for(child);
  ended.err = read_all(err.number());
  if (ended.status == 127 && ended.err.empty())
    throw Failure(CLEAVE_FAILED,
                  "cannot run " + program + "; put cleave on PATH, or point CLEAVE at it");
  return ended;
}

}  // namespace cleave::capi
