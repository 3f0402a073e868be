#include "cleave/data/documents.h"

#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/data/compression.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

bool names_json_lines(const fs::path& name) {
  return name.extension() == ".jsonl" || name.extension() == ".ndjson";
}

std::string text_of_line(std::string_view line, const fs::path& name, std::size_t number) {
  const auto where = [&] { return detail::concat(name.string(), ":", number); };
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  require(json.is_object(), where(), " is no JSON object; every line must be one");
  const auto text = json.find("text");
  require(text != json.end() && text->is_string(), where(),
          " has no \"text\" that is a string; every line must have one");
  return text->get<std::string>();
}

}  // namespace

bool is_json_lines(const fs::path& path) {
  return names_json_lines(is_compressed(path) ? path.stem() : path);
}

Documents::Documents(const fs::path& path) {
  FileContent content = read_content(path);
  bytes_ = std::move(content.bytes);
  read(content.name);
}

Documents::Documents(std::string bytes, const fs::path& name) : bytes_(std::move(bytes)) {
  read(name);
}

void Documents::read(const fs::path& name) {
  const std::string_view foreign = foreign_kind(std::string_view(bytes_).substr(0, 16));
  require(foreign.empty(), name.string(), " is ", foreign, ", not text");
  if (names_json_lines(name)) return read_lines(name);
  if (!bytes_.empty()) texts_.push_back(bytes_);
}

void Documents::read_lines(const fs::path& name) {
  std::vector<std::size_t> ends;
  std::size_t number = 0;
  for (std::size_t at = 0; at < bytes_.size();) {
    const std::size_t end = std::min(bytes_.find('\n', at), bytes_.size());
    const std::string_view line = std::string_view(bytes_).substr(at, end - at);
    ++number;
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      decoded_ += text_of_line(line, name, number);
      ends.push_back(decoded_.size());
    }
    at = end + 1;
  }
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    texts_.push_back(std::string_view(decoded_).substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace cleave::data
