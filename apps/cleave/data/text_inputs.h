#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/data/documents.h"

namespace cleave::app {

/// The texts that a command line names: files, directories, patterns, "-" for standard input.
class TextInputs {
 public:
  /// Throws UserError if one names nothing.
  explicit TextInputs(const std::vector<std::string>& names,
                      const data::ChatTemplate* chat = nullptr);

  /// How many bytes the files have on disk.
  std::int64_t bytes() const { return bytes_; }

  /// Documents, and of conversations what is to be learned of each; else nothing.
  struct Round {
    std::vector<std::string_view> documents;
    std::vector<std::vector<data::TrainedSpan>> trained;
  };

  /// Calls `round` with documents of some 32 MiB at a time, in order, until there are no more. They
  /// are all conversations, or none is.
  void for_each_round(const std::function<void(const Round& round)>& round) const;

 private:
  std::vector<std::filesystem::path> files_;
  const data::ChatTemplate* chat_;
  std::int64_t bytes_ = 0;
};

}  // namespace cleave::app
