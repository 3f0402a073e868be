#pragma once

#include <filesystem>
#include <string>

namespace cleave::testing {

struct Answer {
  int exit = -1;
  std::string out;
  std::string err;
};

/// Runs the program as a user does, through the shell: `run_cleave("schedule 1f1b --stages 4")`.
Answer run_cleave(const std::string& arguments);

/// A directory of this test's own, removed at its end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string path(const std::string& name) const { return directory_ / name; }

  /// Writes a file and returns its path.
  std::string file(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path directory_;
};

std::string read_text(const std::string& path);

}  // namespace cleave::testing
