#include "cleave/data/image/sample_source.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "cleave/base/check.h"
#include "cleave/base/utf8.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

bool ends_in(const std::string& input, std::string_view ending) {
  return input.ends_with(ending);
}

const SourceFormat kSourceFormats[] = {
    {"a folder per class", [](const std::string& input) { return fs::is_directory(input); },
     open_folder},
    {"CSV", [](const std::string& input) { return ends_in(input, ".csv"); }, open_csv},
    {"IDX", [](const std::string& input) { return input.find("idx3-ubyte") != std::string::npos; },
     open_idx},
    {"tar", [](const std::string& input) { return ends_in(input, ".tar"); }, open_tar},
    {"conversations",
     [](const std::string& input) { return ends_in(input, ".json") || ends_in(input, ".jsonl"); },
     open_conversations},
};

}  // namespace

std::unique_ptr<SampleSource> open_source(const std::string& input, const SourceOptions& options) {
  for (const SourceFormat& format : kSourceFormats) {
    if (!format.is(input)) continue;
    auto source = format.open(input, options);
    require(source->size() > 0, input, " has no samples");
    return source;
  }
  require(fs::exists(input), "cannot read input ", input, ": No such file or directory");
  throw UserError(detail::concat(
      input,
      " is nothing that can be packed; give a directory with a folder per class, a .csv, "
      "an IDX file (…idx3-ubyte), a .tar, or a .json or .jsonl list of conversations"));
}

bool is_image_name(const fs::path& path) {
  static constexpr std::array<std::string_view, 4> kEndings = {".jpg", ".jpeg", ".png", ".webp"};
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

std::optional<std::int32_t> class_number(std::string_view digits) {
  std::int32_t number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, number);
  const bool is_one = error == std::errc() && at == end && number >= 0 &&
                      number < std::numeric_limits<std::int32_t>::max();
  return is_one ? std::optional(number) : std::nullopt;
}

void check_caption(const std::string& text, const std::string& sample) {
  require(is_utf8(text), "the caption of ", sample, " is not UTF-8");
}

}  // namespace cleave::data
