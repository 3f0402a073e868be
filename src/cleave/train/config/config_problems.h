#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "cleave/base/check.h"

namespace cleave::train {

/// What is wrong with a config, collected so that it is said at once.
class Problems {
 public:
  /// Does `work`; what it has to complain of is kept for later.
  template <class Work>
  void collect(const Work& work) {
    try {
      work();
    } catch (const UserError& error) {
      if (std::ranges::find(sentences_, error.what()) == sentences_.end())
        sentences_.push_back(error.what());
    }
  }

  /// Throws UserError with all that was collected, if anything was.
  void report() const {
    if (sentences_.empty()) return;
    if (sentences_.size() == 1) throw UserError(sentences_.front());
    std::string text = detail::concat(sentences_.size(), " things are wrong:");
    for (const std::string& sentence : sentences_) text += "\n  - " + sentence;
    throw UserError(text);
  }

 private:
  std::vector<std::string> sentences_;
};

}  // namespace cleave::train
