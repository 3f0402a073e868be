#include "cleave/train/save/tokenizer_files.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "cleave/data/chat.h"
#include "cleave/data/chat_jinja.h"
#include "cleave/data/documents.h"
#include "cleave/data/tokenizer/tokenizer.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// How the run makes text of messages. Null where images stand in it, which are no text.
const data::ChatTemplate* template_of(const Config& config, const data::Tokenizer& tokenizer) {
  if (config.model.kind->reads_images) return nullptr;
  if (!config.data.chat.assistant.empty()) return &config.data.chat;
  return data::chat_template_of(&tokenizer);
}

/// A template of the run's own, or the lines of its files say so.
bool learns_conversations(const data::DataConfig& data) {
  return !data.chat.assistant.empty() ||
         std::ranges::any_of(data.path, [](const data::DataPath& one) {
           return data::begins_with_messages(one.path);
         });
}

/// Null unless it is one token.
std::optional<std::int32_t> turn_end_of(const data::ChatTemplate* how,
                                        const data::Tokenizer& tokenizer) {
  if (how == nullptr) return std::nullopt;
  const std::vector<std::int32_t> tokens = tokenizer.encode(data::chat_turn_end(*how));
  if (tokens.size() != 1) return std::nullopt;
  return tokens[0];
}

/// "" for a token that shows in texts, as a comma does: what it is called would be taken for a
/// special one wherever it stands.
std::string special_name(const data::Tokenizer& tokenizer, std::int32_t token) {
  const std::vector<std::int32_t> one = {token};
  if (!tokenizer.decode(one, data::Specials::Skip).empty()) return "";
  const std::string name = tokenizer.decode(one, data::Specials::Keep);
  return tokenizer.id_of(name) == token ? name : "";
}

/// The tokens that end what the model says, the one that ends a text first.
std::vector<std::int32_t> end_tokens_of(const Config& config, const data::ChatTemplate* how,
                                        const data::Tokenizer& tokenizer) {
  std::vector<std::int32_t> ends;
  for (const auto& end : {turn_end_of(how, tokenizer), tokenizer.end_token()}) {
    if (end && *end < config.model.vocab && std::ranges::find(ends, *end) == ends.end())
      ends.push_back(*end);
  }
  if (!learns_conversations(config.data)) std::ranges::reverse(ends);
  return ends;
}

}  // namespace

TokenizerFiles tokenizer_files(const Config& config, const fs::path& file) {
  Json names = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  if (config.data.path.empty()) return {.tokenizer_config = names.dump(2) + "\n"};
  const auto tokenizer = data::open_tokenizer(file.string());
  const data::ChatTemplate* how = template_of(config, *tokenizer);
  const std::vector<std::int32_t> ends = end_tokens_of(config, how, *tokenizer);
  for (const std::int32_t end : ends) {
    const std::string name = special_name(*tokenizer, end);
    if (name.empty()) continue;
    names["eos_token"] = name;
    break;
  }
  const bool has_own = fs::exists(file.parent_path() / "chat_template.jinja");
  if (how != nullptr && !has_own) names["chat_template"] = data::jinja_of(*how);
  TokenizerFiles files{.tokenizer_config = names.dump(2) + "\n"};
  if (ends.empty()) return files;
  Json tokens;
  tokens["eos_token_id"] = ends.size() == 1 ? Json(ends[0]) : Json(ends);
  files.generation_config = tokens.dump(2) + "\n";
  return files;
}

}  // namespace cleave::train
