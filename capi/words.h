#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cleave::capi {

/// A file that goes away with this.
class TemporaryFile {
 public:
  /// `ending`, such as ".toml", says to the program what it is. Throws Failure.
  TemporaryFile(std::string_view bytes, std::string_view ending);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// What a JSON object of options means.
struct Options {
  std::vector<std::string> words;  ///< as typed: "--stages=4", "1f1b"
  std::string text;                ///< of "text"; empty: none
};

/// `argument` is the name of the verb's argument, which stands alone; empty: it has none. Throws
/// Failure if `json` is no object.
Options options_of(const char* json, std::string_view argument);

}  // namespace cleave::capi
