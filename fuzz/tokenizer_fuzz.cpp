#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/base/utf8.h"
#include "cleave/data/tokenizer/tokenizer.h"

// The first byte chooses. Odd: the rest is a tokenizer.json, which gives a tokenizer that can
// encode and decode anything, or a UserError. Even: the rest is text for a tokenizer of the kind
// that the byte's next bits name, whose tokens are in range, do not depend on what was encoded
// before, and for byte-level ones give the text back.

namespace {

using namespace cleave::data;  // NOLINT(google-build-using-namespace)

constexpr const char* kByteLevel = R"({"added_tokens": [
  {"id": 260, "content": "<s>", "special": true}, {"id": 261, "content": " x", "lstrip": true}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {VOCAB, "ab": 256, "abc": 257, "Ġa": 258, "bc": 259},
            "merges": ["b c", "a b", "ab c", "Ġ a"]}})";
constexpr const char* kFallback = R"({"normalizer": {"type": "Sequence", "normalizers": [
    {"type": "NFKC"}, {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
  "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
  "model": {"type": "BPE", "byte_fallback": true, "fuse_unk": true, "unk_token": "u",
            "vocab": {"u": 0, "▁": 1, "a": 2, "▁a": 3, "é": 4, "<0xC3>": 5, "b": 6, "ab": 7},
            "merges": ["▁ a", "a b"]}})";
constexpr const char* kUnigram = R"({"normalizer": {"type": "NFD"},
  "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "first", "split": false},
  "decoder": {"type": "Metaspace"}, "model": {"type": "Unigram", "unk_id": 0, "vocab": [
    ["<unk>", 0.0], ["▁", -2.0], ["a", -3.0], ["aa", -6.0], ["aaa", -9.0], ["▁a", -4.5]]}})";

/// One token for each byte, under its name in the byte alphabet.
std::string byte_vocabulary() {
  std::string text;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    char name[8] = {};
    std::snprintf(name, sizeof name, "\\u%04x", printable ? byte : next++);
    text += (text.empty() ? "\"" : ", \"") + std::string(name) + "\": " + std::to_string(byte);
  }
  return text;
}

std::unique_ptr<const Tokenizer> byte_level() {
  std::string json = kByteLevel;
  json.replace(json.find("VOCAB"), 5, byte_vocabulary());
  return parse_tokenizer_json(json);
}

void check(const Tokenizer& tokenizer, TextEncoder& used, std::string_view text, bool exact) {
  const std::vector<std::int32_t> tokens = tokenizer.encode(text);
  std::vector<std::int32_t> again;
  used.append(text, Framing::None, again);
  if (tokens != again) std::abort();
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= tokenizer.vocabulary()) std::abort();
  }
  const std::string back = tokenizer.decode(tokens, Specials::Keep);
  if (exact && back != cleave::with_broken_replaced(text)) std::abort();
  StreamDecoder stream(tokenizer, Specials::Keep);
  std::string streamed;
  for (const std::int32_t token : tokens) streamed += stream.add(token);
  streamed += stream.finish();
  if (exact && streamed != back) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 1) {
    try {
      const auto tokenizer = parse_tokenizer_json(text);
      const auto tokens = tokenizer->encode("A few wörds, 123\n\n  and \xff 漢字 <s>");
      tokenizer->decode(tokens, Specials::Skip);
    } catch (const cleave::UserError&) {
    }
    return 0;
  }
  static const auto bytes = byte_level();
  static const auto fallback = parse_tokenizer_json(kFallback);
  static const auto unigram = parse_tokenizer_json(kUnigram);
  static const auto bytes_used = bytes->encoder();
  static const auto fallback_used = fallback->encoder();
  static const auto unigram_used = unigram->encoder();
  switch (data[0] / 2 % 4) {
    case 0:
      check(*fallback, *fallback_used, text, false);
      break;
    case 1:
      check(*unigram, *unigram_used, text, false);
      break;
    // White space that a token takes with it does not come back.
    default:
      check(*bytes, *bytes_used, text, text.find(" x") == std::string_view::npos);
  }
  return 0;
}
