#include "text_inputs.h"

#include "files.h"

#include "cleave/data/text_files.h"

namespace cleave::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRound = std::size_t{32} << 20;
constexpr std::string_view kStandardInput = "-";

/// JSON Lines if it looks like it: a pipe has no name.
std::unique_ptr<data::Documents> from_standard_input(const data::ChatTemplate* chat) {
  std::string text = read_file(std::string(kStandardInput));
  const bool lines = text.starts_with('{');
  return std::make_unique<data::Documents>(std::move(text), lines ? "<stdin>.jsonl" : "<stdin>.txt",
                                           chat);
}

}  // namespace

TextInputs::TextInputs(const std::vector<std::string>& names, const data::ChatTemplate* chat)
    : chat_(chat) {
  for (const std::string& name : names) {
    if (name == kStandardInput) {
      files_.emplace_back(name);
      continue;
    }
    for (const fs::path& file : data::files_named(name, "input")) {
      files_.push_back(file);
      std::error_code error;
      const auto size = fs::file_size(file, error);
      if (!error) bytes_ += static_cast<std::int64_t>(size);
    }
  }
}

void TextInputs::for_each_round(const std::function<void(const Round& round)>& round) const {
  std::vector<std::unique_ptr<data::Documents>> held;
  Round next;
  std::size_t bytes = 0;
  const auto flush = [&] {
    if (!next.documents.empty()) round(next);
    next = {};
    held.clear();
    bytes = 0;
  };
  for (const fs::path& file : files_) {
    auto documents = file == kStandardInput ? from_standard_input(chat_)
                                            : std::make_unique<data::Documents>(file, chat_);
    if (documents->is_chat() == next.trained.empty()) flush();
    for (const std::string_view text : documents->texts()) {
      next.documents.push_back(text);
      bytes += text.size();
    }
    const auto& trained = documents->trained();
    next.trained.insert(next.trained.end(), trained.begin(), trained.end());
    held.push_back(std::move(documents));
    if (bytes >= kRound) flush();
  }
  flush();
}

}  // namespace cleave::app
