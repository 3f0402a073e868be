#include "files.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "cleave/base/check.h"

namespace cleave::app {

namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

std::string read_all(std::FILE* file, const std::string& path) {
  std::string text;
  char block[1 << 16];
  while (const std::size_t bytes = std::fread(block, 1, sizeof block, file)) {
    text.append(block, bytes);
    require(text.size() <= kMostBytes, path, " is larger than 1 GiB");
  }
  require(std::ferror(file) == 0, "cannot read ", path, ": ", std::strerror(errno));
  return text;
}

}  // namespace

std::string read_file(const std::string& path) {
  if (path == "-") return read_all(stdin, "standard input");
  const File file(std::fopen(path.c_str(), "rb"));
  require(file != nullptr, "cannot read ", path, ": ", std::strerror(errno));
  return read_all(file.get(), path);
}

void write_file(const std::string& path, std::string_view text) {
  const bool standard = path.empty() || path == "-";
  const File file(standard ? nullptr : std::fopen(path.c_str(), "wb"));
  require(standard || file != nullptr, "cannot write ", path, ": ", std::strerror(errno));
  std::FILE* out = standard ? stdout : file.get();
  const bool taken = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if (taken && std::fflush(out) == 0) return;
  const char* why = std::strerror(errno);
  if (!standard) std::remove(path.c_str());
  throw std::runtime_error(
      detail::concat("cannot write ", standard ? "standard output" : path, ": ", why));
}

void finish_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw std::runtime_error(
      detail::concat("cannot write standard output: ", std::strerror(errno == 0 ? EIO : errno)));
}

}  // namespace cleave::app
