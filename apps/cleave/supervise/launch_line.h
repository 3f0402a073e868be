#pragma once

#include <optional>
#include <string>
#include <vector>

namespace cleave::app {

/// A command that starts ranks, such as mpirun -np 4 cleave train run.toml.
class LaunchLine {
 public:
  /// Throws UserError unless it has the words cleave train, or a path of cleave and train.
  explicit LaunchLine(std::vector<std::string> words);

  /// How many ranks it asks for; nothing if it does not say.
  std::optional<int> ranks() const;

  /// The same command for a run that goes on after a loss, with so many ranks: from the last
  /// checkpoint, everything of the layout anew. Nothing: with as many as it says, as it says.
  LaunchLine resumed(std::optional<int> ranks) const;

  const std::vector<std::string>& words() const { return words_; }

 private:
  /// Where the number of ranks stands, and in which word.
  struct Count {
    std::size_t word = 0;
    std::size_t begin = 0;  ///< in the word
  };
  std::optional<Count> count() const;

  std::vector<std::string> words_;
  std::size_t program_ = 0;  ///< the word that is cleave
};

}  // namespace cleave::app
