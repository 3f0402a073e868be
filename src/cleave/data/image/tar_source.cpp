#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/shallow_json.h"
#include "cleave/data/image/sample_source.h"
#include "cleave/data/image/tar.h"
#include "cleave/data/text_files.h"

namespace cleave::data {
namespace {

/// "shard-{0008..0010}.tar" names three files; without braces a name or pattern is one.
std::vector<std::string> expand_range(const std::string& input) {
  const std::size_t open = input.find('{');
  const std::size_t dots = input.find("..", open);
  const std::size_t close = input.find('}', dots);
  if (open == std::string::npos || dots == std::string::npos || close == std::string::npos)
    return {input};
  const std::string from = input.substr(open + 1, dots - open - 1);
  const std::string to = input.substr(dots + 2, close - dots - 2);
  std::int64_t first = 0;
  std::int64_t last = -1;
  const auto is_number = [](const std::string& text, std::int64_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  };
  constexpr std::int64_t kMostFiles = 1'000'000;
  require(is_number(from, first) && is_number(to, last) && first >= 0 && first <= last &&
              last - first < kMostFiles,
          input, " has a range {", from, "..", to, "} that does not count upwards");
  std::vector<std::string> names;
  for (std::int64_t i = first; i <= last; ++i) {
    std::string number = std::to_string(i);
    number.insert(0, from.size() > number.size() ? from.size() - number.size() : 0, '0');
    names.push_back(input.substr(0, open) + number + input.substr(close + 1));
  }
  return names;
}

/// Files of a tar that share their name up to the first dot are a sample, as webdataset has it.
class TarSource : public SampleSource {
 public:
  explicit TarSource(const std::string& input) {
    for (const std::string& name : expand_range(input))
      for (const auto& path : files_named(name, "input")) add_tar(File::open(path));
  }

  std::int64_t size() const override { return std::ssize(samples_); }

  std::string name(std::int64_t index) const override {
    const Group& group = samples_[index];
    return detail::concat(group.key, " of ", tars_[group.tar].path().string());
  }

  Sample read(std::int64_t index) const override {
    const Group& group = samples_[index];
    Sample sample;
    for (const TarEntry& entry : group.files) {
      const std::string ending = entry.name.substr(key_of(entry.name).size());
      if (is_image_name(entry.name)) {
        const std::string bytes = bytes_of(group, entry);
        sample.images.push_back(
            decode_image(std::as_bytes(std::span(bytes)),
                         detail::concat(entry.name, " of ", tars_[group.tar].path().string())));
      } else if (ending == ".txt") {
        sample.text = bytes_of(group, entry);
      } else if (ending == ".cls") {
        sample.label = label_in(bytes_of(group, entry), index);
      } else if (ending == ".json" && sample.text.empty()) {
        read_json(bytes_of(group, entry), index, sample);
      }
    }
    check_caption(sample.text, name(index));
    require(!sample.images.empty(), name(index), " has no image (.jpg, .png or .webp)");
    return sample;
  }

 private:
  struct Group {
    std::size_t tar = 0;
    std::string key;
    std::vector<TarEntry> files;
  };

  /// Up to the first dot after the last slash.
  static std::string key_of(const std::string& name) {
    const std::size_t slash = name.rfind('/');
    return name.substr(0, name.find('.', slash == std::string::npos ? 0 : slash));
  }

  void add_tar(File tar) {
    const std::vector<TarEntry> entries = tar_entries(tar);
    tars_.push_back(std::move(tar));
    const std::size_t number = tars_.size() - 1;
    for (const TarEntry& entry : entries) {
      const std::string key = key_of(entry.name);
      if (samples_.empty() || samples_.back().key != key || samples_.back().tar != number)
        samples_.push_back({number, key, {}});
      samples_.back().files.push_back(entry);
    }
  }

  std::string bytes_of(const Group& group, const TarEntry& entry) const {
    std::string bytes(static_cast<std::size_t>(entry.bytes), '\0');
    tars_[group.tar].read(std::as_writable_bytes(std::span(bytes)), entry.offset);
    return bytes;
  }

  std::int32_t label_in(const std::string& text, std::int64_t index) const {
    constexpr std::string_view kSpace = " \t\r\n";
    const std::size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
    const std::size_t end = std::max(text.find_last_not_of(kSpace) + 1, begin);
    const auto label = class_number(std::string_view(text).substr(begin, end - begin));
    require(label.has_value(), "the .cls of ", name(index), " is no class number");
    return *label;
  }

  void read_json(const std::string& text, std::int64_t index, Sample& sample) const {
    const auto json = parse_shallow_or_discard<nlohmann::json>(text);
    require(json.is_object(), "the .json of ", name(index), " is no JSON object in UTF-8");
    for (const char* key : {"caption", "text"})
      if (json.contains(key) && json[key].is_string()) sample.text = json[key];
    for (const char* key : {"label", "cls"})
      if (json.contains(key) && json[key].is_number_unsigned()) {
        const auto label = class_number(json[key].dump());
        require(label.has_value(), "the .json of ", name(index), " has \"", key,
                "\": ", json[key].dump(), ", which is no class number");
        sample.label = *label;
      }
  }

  std::vector<File> tars_;
  std::vector<Group> samples_;
};

}  // namespace

std::unique_ptr<SampleSource> open_tar(const std::string& input, const SourceOptions&) {
  return std::make_unique<TarSource>(input);
}

}  // namespace cleave::data
