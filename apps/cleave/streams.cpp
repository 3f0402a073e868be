#include "streams.h"

#include <csignal>

#include <fcntl.h>
#include <unistd.h>

namespace cleave::app {

void open_standard_streams() {
  // open() gives the lowest number that is free, so none below the one looked at is.
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) == -1 && ::open("/dev/null", O_RDWR) != descriptor)
      std::_Exit(1);  // without /dev/null there is no safe way to go on
  }
}

void survive_file_limit() {
  std::signal(SIGXFSZ, SIG_IGN);
}

void print_text(std::FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

}  // namespace cleave::app
