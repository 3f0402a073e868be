#include "supervise/launch_line.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "cleave/base/check.h"
#include "cleave/train/config/config_schema.h"

namespace cleave::app {
namespace {

bool is_cleave(const std::string& word) {
  return word.substr(word.rfind('/') + 1) == "cleave";
}

/// The flags of mpirun and srun that say how many ranks there are.
bool counts_ranks(std::string_view flag) {
  return flag == "-np" || flag == "--np" || flag == "-n" || flag == "--ntasks";
}

std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1) return std::nullopt;
  return number;
}

}  // namespace

LaunchLine::LaunchLine(std::vector<std::string> words) : words_(std::move(words)) {
  require(!words_.empty(),
          "cleave supervise needs a command, such as: cleave supervise mpirun -np 4 cleave train "
          "run.toml");
  for (std::size_t i = 0; i + 1 < words_.size(); ++i) {
    if (!is_cleave(words_[i]) || words_[i + 1] != "train") continue;
    program_ = i;
    return;
  }
  throw UserError(
      "the command of cleave supervise does not contain cleave train, which can be resumed; give "
      "one such as: cleave supervise mpirun -np 4 cleave train run.toml");
}

std::optional<LaunchLine::Count> LaunchLine::count() const {
  for (std::size_t i = 0; i < program_; ++i) {
    const std::string& word = words_[i];
    if (counts_ranks(word) && i + 1 < program_) return Count{i + 1, 0};
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos && counts_ranks(std::string_view(word).substr(0, equals)))
      return Count{i, equals + 1};
  }
  return std::nullopt;
}

std::optional<int> LaunchLine::ranks() const {
  const std::optional<Count> at = count();
  if (!at) return std::nullopt;
  return number_of(std::string_view(words_[at->word]).substr(at->begin));
}

LaunchLine LaunchLine::resumed(std::optional<int> ranks) const {
  LaunchLine line = *this;
  const auto resumes = [](const std::string& word) { return word.starts_with("--resume"); };
  std::erase_if(line.words_, [](const std::string& word) { return word == "--overwrite"; });
  if (std::ranges::none_of(line.words_, resumes)) line.words_.push_back("--resume");
  const std::optional<Count> at = line.count();
  if (!ranks || !at) return line;
  std::string& word = line.words_[at->word];
  word = word.substr(0, at->begin) + std::to_string(*ranks);
  const auto set = [&](std::string_view key, const std::string& value) {
    line.words_.insert(line.words_.end(), {"--set", detail::concat(key, "=", value)});
  };
  set("devices.count", std::to_string(*ranks));
  for (const train::Key& key : train::config_keys())
    if (key.of_layout) set(key.name, "auto");
  return line;
}

}  // namespace cleave::app
