#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "app/process.h"
#include <nlohmann/json.hpp>

namespace cleave::testing {

/// A training of a tiny model on a few kilobytes of text, in a directory of its own.
class TinyRun {
 public:
  using Keys = std::vector<std::string>;  ///< "train.steps=5", …

  explicit TinyRun(Keys keys = {}) : keys_(std::move(keys)) {
    std::string text;
    for (unsigned i = 0, x = 1; i < 4000; ++i, x = x * 1664525 + 1013904223) {
      text += "the quick brown fox "[x >> 16 & 15];
    }
    directory_.write("data.txt", text);
    directory_.write("run.toml",
                     "[model]\nlayers = 4\nhidden = 32\nheads = 4\n[data]\npath = \"" +
                         directory_.path("data.txt") +
                         "\"\n[train]\nsteps = 20\nbatch = 4\nsequence = 16\nlr = 1e-2\n"
                         "out = \"" +
                         out() + "\"\n");
  }

  std::string out() const { return directory_.path("out"); }
  std::string path(const std::string& name) const { return directory_.path(name); }
  const TemporaryDirectory& directory() const { return directory_; }

  /// `cleave train` with the run's keys and then these, and flags such as --resume.
  std::vector<std::string> command(const Keys& keys = {}, const Keys& flags = {},
                                   int ranks = 0) const {
    std::vector<std::string> arguments = {"train", directory_.path("run.toml")};
    for (const Keys* list : {&keys_, &keys}) {
      for (const std::string& key : *list) arguments.insert(arguments.end(), {"--set", key});
    }
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return cleave_command(std::move(arguments), ranks);
  }

  Answer train(const Keys& keys = {}, const Keys& flags = {}, int ranks = 0) const {
    return run(command(keys, flags, ranks));
  }

  /// The report of a run that must succeed; throws what it said if it does not.
  nlohmann::json report(const Keys& keys = {}, Keys flags = {}, int ranks = 0) const {
    flags.push_back("--json");
    const Answer answer = train(keys, flags, ranks);
    if (answer.exit != 0) throw std::runtime_error(answer.err);
    return nlohmann::json::parse(answer.out);
  }

 private:
  TemporaryDirectory directory_;
  Keys keys_;
};

}  // namespace cleave::testing
