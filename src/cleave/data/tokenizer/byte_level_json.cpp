#include "cleave/data/tokenizer/byte_level_json.h"

#include <nlohmann/json.hpp>

#include "cleave/data/tokenizer/byte_alphabet.h"

namespace cleave::data::tokenizer {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson added_tokens_json(const std::vector<std::string>& names) {
  OrderedJson added = OrderedJson::array();
  for (std::size_t i = 0; i < names.size(); ++i) {
    added.push_back({{"id", i},
                     {"content", names[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return added;
}

}  // namespace

std::string byte_level_json(const ByteLevelBpe& bpe) {
  OrderedJson vocabulary = OrderedJson::object();
  for (std::size_t i = 0; i < bpe.names.size(); ++i) vocabulary[bpe.names[i]] = i;
  OrderedJson pairs = OrderedJson::array();
  for (const auto& [left, right] : bpe.merges) pairs.push_back({left, right});
  const OrderedJson bytes = {{"type", "ByteLevel"},
                             {"add_prefix_space", false},
                             {"trim_offsets", true},
                             {"use_regex", false}};
  OrderedJson pre_tokenizer = bytes;
  if (!bpe.words.empty()) {
    const OrderedJson split = {{"type", "Split"},
                               {"pattern", {{"Regex", bpe.words}}},
                               {"behavior", "Isolated"},
                               {"invert", false}};
    pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", OrderedJson::array({split, bytes})}};
  }
  const OrderedJson json = {{"version", "1.0"},
                            {"truncation", nullptr},
                            {"padding", nullptr},
                            {"added_tokens", added_tokens_json(bpe.special_tokens)},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", pre_tokenizer},
                            {"post_processor", bytes},
                            {"decoder", bytes},
                            {"model",
                             {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"ignore_merges", false},
                              {"vocab", vocabulary},
                              {"merges", pairs}}}};
  return json.dump(1) + "\n";
}

std::string bytes_json() {
  ByteLevelBpe bpe;
  for (int b = 0; b < 256; ++b) {
    const char one = static_cast<char>(b);
    append_in_alphabet({&one, 1}, bpe.names.emplace_back());
  }
  return byte_level_json(bpe);
}

}  // namespace cleave::data::tokenizer
