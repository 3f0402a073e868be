#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/shallow_json.h"
#include "cleave/data/compression.h"
#include "cleave/data/image/sample_source.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kImageToken = "<image>";

std::int64_t image_tokens(const std::string& text) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(kImageToken); at != std::string::npos;
       at = text.find(kImageToken, at + kImageToken.size()))
    ++count;
  return count;
}

/// A list of {id, image, conversations: [{from, value}]}, as LLaVA's; or a line for each.
class ConversationSource : public SampleSource {
 public:
  ConversationSource(const std::string& path, const SourceOptions& options)
      : path_(path), root_(options.images.empty() ? fs::path(path).parent_path() : options.images) {
    const FileContent content = read_content(path);
    require(!content.bytes.empty(), path, " is empty");
    if (content.name.extension() == ".jsonl") {
      read_lines(content.bytes);
    } else {
      Json list = parse(content.bytes, path_);
      require(list.is_array(), path_, " must be a list of samples, [{\"conversations\": …}, …]");
      for (Json& entry : list) entries_.push_back(std::move(entry));
    }
  }

  std::int64_t size() const override { return std::ssize(entries_); }

  std::string name(std::int64_t index) const override {
    const Json& entry = entries_[index];
    if (!entry.is_object() || !entry.contains("id"))
      return detail::concat("sample ", index, " of ", path_);
    const Json& id = entry["id"];
    return detail::concat("sample ", id.is_string() ? id.get<std::string>() : id.dump(), " of ",
                          path_);
  }

  Sample read(std::int64_t index) const override {
    const Json& entry = entries_[index];
    const std::string which = name(index);
    require(
        entry.is_object() && entry.contains("conversations") && entry["conversations"].is_array(),
        which, " has no list \"conversations\"");
    Sample sample;
    Json turns = Json::array();
    std::int64_t tokens = 0;
    for (const Json& turn : entry["conversations"]) {
      require(turn.is_object() && turn.contains("from") && turn["from"].is_string() &&
                  turn.contains("value") && turn["value"].is_string(),
              "a turn of ", which, " has no text \"from\" or \"value\"");
      turns.push_back({{"from", turn["from"]}, {"value", turn["value"]}});
      tokens += image_tokens(turn["value"].get<std::string>());
    }
    const std::vector<std::string> images = images_of(entry, which);
    require(tokens == std::ssize(images), which, " has ", tokens, " image tokens (", kImageToken,
            ") and ", images.size(), " images; give one image for each");
    for (const std::string& image : images)
      sample.images.push_back(read_image((root_ / image).string()));
    sample.text = turns.dump();
    return sample;
  }

 private:
  /// The parser refuses what is not UTF-8 as well.
  static Json parse(std::string_view text, const std::string& name) {
    Json json = parse_shallow_or_discard<Json>(text);
    require(!json.is_discarded(), name, " is no JSON in UTF-8");
    return json;
  }

  void read_lines(const std::string& text) {
    std::size_t line = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view one(text.data() + at, end - at);
      ++line;
      if (one.find_first_not_of(" \t\r") != std::string_view::npos)
        entries_.push_back(parse(one, detail::concat("line ", line, " of ", path_)));
      at = end + 1;
    }
  }

  static std::vector<std::string> images_of(const Json& entry, const std::string& which) {
    if (!entry.contains("image") || entry["image"].is_null()) return {};
    const Json& image = entry["image"];
    if (image.is_string()) return {image.get<std::string>()};
    require(image.is_array(), "\"image\" of ", which, " is neither a path nor a list of paths");
    std::vector<std::string> images;
    for (const Json& one : image) {
      require(one.is_string(), "\"image\" of ", which, " lists what is no path");
      images.push_back(one.get<std::string>());
    }
    return images;
  }

  std::string path_;
  fs::path root_;
  std::vector<Json> entries_;
};

}  // namespace

std::unique_ptr<SampleSource> open_conversations(const std::string& input,
                                                 const SourceOptions& options) {
  return std::make_unique<ConversationSource>(input, options);
}

}  // namespace cleave::data
