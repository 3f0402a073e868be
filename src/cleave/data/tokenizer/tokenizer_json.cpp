#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>

#include "cleave/base/shallow_json.h"
#include "cleave/base/whole_number.h"
#include "cleave/data/tokenizer/bpe.h"
#include "cleave/data/tokenizer/json_kinds.h"
#include "cleave/data/tokenizer/pipeline.h"
#include "cleave/data/tokenizer/unigram.h"

namespace cleave::data {
namespace tokenizer {
namespace {

/// "a b" in older files, ["a", "b"] in newer ones.
std::pair<std::string, std::string> read_merge(const Json& json) {
  if (json.is_array()) return {json.at(0).get<std::string>(), json.at(1).get<std::string>()};
  const auto& text = json.get_ref<const std::string&>();
  const std::size_t space = text.find(' ');
  require(space != std::string::npos && text.find(' ', space + 1) == std::string::npos, "merge \"",
          text, "\" is not of two tokens");
  return {text.substr(0, space), text.substr(space + 1)};
}

std::unique_ptr<Model> read_bpe(const Json& json) {
  require(value_or(json, "dropout", 0.0) == 0,
          "a BPE model with dropout gives random tokens, which "
          "cleave does not; set \"dropout\" to null");
  BpeParts parts;
  for (const auto& [token, id] : json.at("vocab").items()) {
    parts.vocabulary.add(token, whole_number<std::int64_t>(id));
  }
  require(parts.vocabulary.size() > 0, "its vocabulary is empty; fetch it again");
  for (const Json& merge : list_at(json, "merges")) parts.merges.push_back(read_merge(merge));
  const auto unknown = value_or<std::string>(json, "unk_token", "");
  if (!unknown.empty()) parts.unk_token = unknown;
  parts.continuing_subword_prefix = value_or<std::string>(json, "continuing_subword_prefix", "");
  parts.end_of_word_suffix = value_or<std::string>(json, "end_of_word_suffix", "");
  parts.fuse_unk = value_or(json, "fuse_unk", false);
  parts.byte_fallback = value_or(json, "byte_fallback", false);
  parts.ignore_merges = value_or(json, "ignore_merges", false);
  return std::make_unique<Bpe>(std::move(parts));
}

/// The number as Hugging Face's library reads it. Its parser takes the digits as one whole number
/// and divides by a power of ten, which is off by a unit in the last place now and then; where two
/// ways to cut a word are equally likely, that decides between them.
double as_serde_reads(double exact) {
  char text[32] = {};
  const char* end =
      std::to_chars(text, text + sizeof text, exact, std::chars_format::scientific).ptr;
  std::uint64_t digits = 0;
  int exponent = 0;
  bool after_point = false;
  const char* at = text;
  for (; at != end && *at != 'e'; ++at) {
    if (*at >= '0' && *at <= '9') {
      digits = 10 * digits + static_cast<std::uint64_t>(*at - '0');
      exponent -= after_point ? 1 : 0;
    }
    after_point |= *at == '.';
  }
  if (at != end) exponent += std::atoi(at + 1);
  // Powers of ten up to here are exact.
  if (exponent < -22 || exponent > 22) return exact;
  const double power = std::pow(10.0, std::abs(exponent));
  const auto whole = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? whole / power : whole * power, exact);
}

std::unique_ptr<Model> read_unigram(const Json& json) {
  UnigramParts parts;
  for (const Json& token : json.at("vocab")) {
    parts.tokens.emplace_back(token.at(0).get<std::string>(),
                              as_serde_reads(token.at(1).get<double>()));
  }
  require(!parts.tokens.empty(), "its vocabulary is empty; fetch it again");
  const auto unknown = json.find("unk_id");
  if (unknown != json.end() && !unknown->is_null())
    parts.unk_id = whole_number<std::int32_t>(*unknown);
  parts.byte_fallback = value_or(json, "byte_fallback", false);
  return std::make_unique<Unigram>(std::move(parts));
}

using MakeModel = std::unique_ptr<Model> (*)(const Json&);

constexpr Kind<MakeModel> kModels[] = {{"BPE", read_bpe}, {"Unigram", read_unigram}};

std::unique_ptr<Model> read_model(const Json& json) {
  // The first files had no type.
  if (!json.contains("type") && json.contains("merges")) return read_bpe(json);
  return kind_of<MakeModel>(json, "model", kModels).make(json);
}

/// Hugging Face's library numbers added tokens anew: those of the model's vocabulary as it does,
/// all others one after another from its size on, whatever the file says.
class AddedNumbers {
 public:
  /// `size` is the number of entries in the model's vocabulary.
  AddedNumbers(const Vocabulary& model, std::size_t size)
      : model_(model), next_(static_cast<std::int32_t>(size)) {}

  std::int32_t of(const std::string& content) {
    if (const auto known = model_.id_of(content)) {
      next_ = std::max(next_, *known + 1);
      return *known;
    }
    const auto [at, is_new] = added_.emplace(content, next_);
    if (is_new) ++next_;
    return at->second;
  }

 private:
  const Vocabulary& model_;
  std::map<std::string, std::int32_t> added_;
  std::int32_t next_;
};

std::vector<AddedToken> read_added(const Json& json, AddedNumbers numbers) {
  std::vector<AddedToken> tokens;
  if (json.is_null()) return tokens;
  require(json.is_array(), "\"added_tokens\" must be a list");
  for (const Json& one : json) {
    const bool special = value_or(one, "special", false);
    auto content = one.at("content").get<std::string>();
    // The same bounds as for the model's own tokens.
    Vocabulary().add(content, whole_number<std::int64_t>(one.at("id")));
    tokens.push_back({.id = numbers.of(content),
                      .content = std::move(content),
                      .single_word = value_or(one, "single_word", false),
                      .lstrip = value_or(one, "lstrip", false),
                      .rstrip = value_or(one, "rstrip", false),
                      .normalized = value_or(one, "normalized", !special),
                      .special = special});
  }
  return tokens;
}

const Json& part_of(const Json& json, const char* key) {
  static const Json nothing;
  const auto at = json.find(key);
  return at == json.end() ? nothing : *at;
}

std::unique_ptr<const Tokenizer> read_pipeline(const Json& json, const std::string& end_name) {
  require(json.is_object() && json.contains("model"), "it has no \"model\"");
  const auto version = value_or<std::string>(json, "version", "1.0");
  require(version == "1.0", "it is of version ", version, ", and cleave reads version 1.0");
  PipelineParts parts;
  read_normalizer(part_of(json, "normalizer"), parts.normalizers);
  parts.model = read_model(json.at("model"));
  const AddedNumbers numbers(parts.model->vocabulary(), json.at("model").at("vocab").size());
  parts.added = AddedTokens(read_added(part_of(json, "added_tokens"), numbers), parts.normalizers);
  parts.pre_tokenizers = read_pre_tokenizers(part_of(json, "pre_tokenizer"));
  parts.frame = read_frame(part_of(json, "post_processor"));
  parts.decoders = read_decoders(part_of(json, "decoder"));
  parts.decodes = !part_of(json, "decoder").is_null();
  return std::make_unique<PipelineTokenizer>(std::move(parts), end_name);
}

}  // namespace
}  // namespace tokenizer

std::unique_ptr<const Tokenizer> parse_tokenizer_json(std::string_view text,
                                                      const std::string& end_name) {
  require(is_shallow(text), "it is nested more than ", kDeepestJson, " levels deep");
  try {
    return tokenizer::read_pipeline(nlohmann::json::parse(text), end_name);
  } catch (const nlohmann::json::parse_error& error) {
    throw UserError(detail::concat("it is no JSON from byte ", error.byte, " of ", text.size(),
                                   " on; fetch it again"));
  } catch (const nlohmann::json::exception& error) {
    // What comes after the number that the library gives its errors.
    const std::string_view what = error.what();
    const std::size_t number = what.find("] ");
    throw UserError(detail::concat("it is none that Hugging Face's library has written: ",
                                   what.substr(number == std::string_view::npos ? 0 : number + 2),
                                   "; fetch it again"));
  }
}

}  // namespace cleave::data
