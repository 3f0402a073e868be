#include <algorithm>

#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/base/shallow_json.h"
#include "cleave/data/tokenizer/sentencepiece.h"
#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

/// One token for each byte.
class ByteTokenizer : public Tokenizer {
 public:
  std::int64_t vocabulary() const override { return 256; }
  std::unique_ptr<TextEncoder> encoder() const override { return std::make_unique<Bytes>(); }
  std::string decode(std::span<const std::int32_t> tokens, Specials) const override {
    std::string bytes;
    for (const std::int32_t token : tokens) {
      if (token >= 0 && token < 256) bytes += static_cast<char>(token);
    }
    return bytes;
  }
  std::optional<std::int32_t> id_of(std::string_view name) const override {
    return name.size() == 1 ? std::optional<std::int32_t>(static_cast<unsigned char>(name[0]))
                            : std::nullopt;
  }
  std::optional<std::int32_t> end_token() const override { return std::nullopt; }

 private:
  class Bytes : public TextEncoder {
   public:
    void append(std::string_view text, Framing, std::vector<std::int32_t>& tokens) override {
      for (char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    }
  };
};

/// The name of the token that ends a document, from the tokenizer_config.json beside it; or none.
std::string end_name_beside(const fs::path& tokenizer) {
  const fs::path file = tokenizer_config_beside(tokenizer);
  if (!fs::exists(file)) return "";
  const auto json = parse_shallow_or_discard<nlohmann::json>(read_text(file));
  if (!json.is_object() || !json.contains("eos_token")) return "";
  const auto& token = json["eos_token"];
  if (token.is_string()) return token.get<std::string>();
  return token.is_object() && token.contains("content") && token["content"].is_string()
             ? token["content"].get<std::string>()
             : "";
}

std::unique_ptr<const Tokenizer> open_json(const std::string& path) {
  try {
    return parse_tokenizer_json(read_text(path), end_name_beside(path));
  } catch (const UserError& error) {
    throw UserError(detail::concat("cannot use tokenizer ", path, ": ", error.what()));
  }
}

/// A kind of tokenizer file; the first that exists in a directory is taken.
struct TokenizerFile {
  std::string_view name;
  std::string_view extension;
  std::unique_ptr<const Tokenizer> (*open)(const std::string& path);
};

constexpr TokenizerFile kTokenizerFiles[] = {
    {"tokenizer.json", ".json", open_json},
    {"tokenizer.model", ".model", tokenizer::open_sentencepiece},
    {"spiece.model", ".model", tokenizer::open_sentencepiece},
};

}  // namespace

fs::path tokenizer_config_beside(const fs::path& tokenizer) {
  return tokenizer.extension() == ".json" ? tokenizer.parent_path() / "tokenizer_config.json"
                                          : fs::path();
}

fs::path find_tokenizer(const fs::path& directory) {
  for (const TokenizerFile& file : kTokenizerFiles) {
    if (fs::exists(directory / file.name)) return directory / file.name;
  }
  return {};
}

std::unique_ptr<const Tokenizer> open_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  fs::path path = name;
  if (fs::is_directory(path)) {
    path = find_tokenizer(path);
    require(!path.empty(), "there is no tokenizer.json and no tokenizer.model in ", name,
            "; name a directory that has one, or the file");
  }
  require(fs::exists(path), "cannot read tokenizer ", name,
          ": No such file or directory; give \"bytes\", a tokenizer.json or a tokenizer.model");
  for (const TokenizerFile& file : kTokenizerFiles) {
    if (path.extension() == file.extension) return file.open(path.string());
  }
  throw UserError(
      detail::concat("tokenizer ", name, " is neither \"bytes\" nor a file .json or .model"));
}

}  // namespace cleave::data
