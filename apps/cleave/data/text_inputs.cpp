#include "text_inputs.h"

#include "files.h"

#include "cleave/data/text_files.h"

namespace cleave::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRound = std::size_t{32} << 20;
constexpr std::string_view kStandardInput = "-";

/// JSON Lines if it looks like it: a pipe has no name.
std::unique_ptr<data::Documents> from_standard_input() {
  std::string text = read_file(std::string(kStandardInput));
  const bool lines = text.starts_with('{');
  return std::make_unique<data::Documents>(std::move(text),
                                           lines ? "<stdin>.jsonl" : "<stdin>.txt");
}

}  // namespace

TextInputs::TextInputs(const std::vector<std::string>& names) {
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

void TextInputs::for_each_round(
    const std::function<void(const std::vector<std::string_view>& documents)>& round) const {
  std::vector<std::unique_ptr<data::Documents>> held;
  std::vector<std::string_view> documents;
  std::size_t bytes = 0;
  const auto flush = [&] {
    if (!documents.empty()) round(documents);
    documents.clear();
    held.clear();
    bytes = 0;
  };
  for (const fs::path& file : files_) {
    held.push_back(file == kStandardInput ? from_standard_input()
                                          : std::make_unique<data::Documents>(file));
    for (const std::string_view text : held.back()->texts()) {
      documents.push_back(text);
      bytes += text.size();
    }
    if (bytes >= kRound) flush();
  }
  flush();
}

}  // namespace cleave::app
