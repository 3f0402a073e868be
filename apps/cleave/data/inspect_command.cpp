#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "byte_progress.h"
#include "data_command.h"
#include "files.h"
#include "json_text.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/base/utf8.h"
#include "cleave/data/image/image_set.h"
#include "cleave/data/image/image_set_format.h"
#include "cleave/data/token_stream.h"

namespace cleave::app {
namespace {

struct InspectFlags {
  std::string path;
  std::string tokenizer;
  std::string type = "auto";
  bool json = false;
};

constexpr std::int64_t kBlock = 1 << 16;  // tokens at a time
constexpr std::size_t kShown = 32;        // tokens of the beginning

/// What a run would find in the data.
struct TokenFacts {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t learned = 0;  ///< tokens that are to be predicted
  std::int32_t largest = 0;
  std::vector<std::int32_t> first = {};
  std::optional<std::int64_t> text_bytes = {};
};

TokenFacts facts_of(const data::TokenStream& stream) {
  TokenFacts facts{.tokens = stream.size(),
                   .learned = stream.targets(0, stream.size()),
                   .text_bytes = stream.text_bytes()};
  ByteProgress progress("reading", facts.tokens);
  std::vector<std::int32_t> block;
  for (std::int64_t at = 0; at < facts.tokens; at += kBlock) {
    block.resize(static_cast<std::size_t>(std::min(kBlock, facts.tokens - at)));
    stream.read(at, block);
    facts.largest = std::max(facts.largest, std::ranges::max(block));
    if (at == 0) facts.first.assign(block.begin(), block.begin() + std::min(kShown, block.size()));
    // From one token earlier on: the first of a window may or may not begin a document.
    const std::int64_t earlier = std::max<std::int64_t>(0, at - 1);
    block.resize(block.size() + static_cast<std::size_t>(at - earlier));
    stream.read_begins(earlier, block);
    facts.documents += at == 0 ? 1 : 0;
    for (std::size_t i = 1; i < block.size(); ++i)
      facts.documents += block[i] == static_cast<std::int32_t>(i) ? 1 : 0;
    progress.advance(static_cast<std::int64_t>(block.size()));
  }
  return facts;
}

data::TokenType type_of(const std::string& name) {
  if (name == "u16") return data::TokenType::U16;
  if (name == "u32") return data::TokenType::U32;
  require(name == "auto", "--dtype ", name, " must be auto, u16 or u32");
  return data::TokenType::Auto;
}

/// The tokens as text; without a tokenizer, bytes where they are bytes.
std::string beginning_of(const TokenFacts& facts, const data::Tokenizer* tokenizer) {
  if (tokenizer != nullptr) return tokenizer->decode(facts.first, data::Specials::Keep);
  if (facts.largest > 255) return fmt::format("{}", fmt::join(facts.first, " "));
  return {facts.first.begin(), facts.first.end()};
}

void inspect_tokens(const InspectFlags& flags) {
  const auto tokenizer = flags.tokenizer.empty() ? nullptr : data::open_tokenizer(flags.tokenizer);
  const data::TokenStream stream(flags.path, type_of(flags.type),
                                 std::numeric_limits<std::int32_t>::max(),
                                 {.key = "the path",
                                  .tokenizer = tokenizer.get(),
                                  .chat = data::chat_template_of(tokenizer.get()),
                                  .borders = data::Borders::Kept});
  const TokenFacts facts = facts_of(stream);
  const std::string begins = with_broken_replaced(beginning_of(facts, tokenizer.get()));
  const double share = static_cast<double>(facts.learned) / static_cast<double>(facts.tokens);
  if (flags.json) {
    nlohmann::json all = {{"kind", "tokens"},
                          {"tokens", facts.tokens},
                          {"documents", facts.documents},
                          {"largest_token", facts.largest},
                          {"learned", facts.learned},
                          {"begins", begins}};
    if (facts.text_bytes) all["text_bytes"] = *facts.text_bytes;
    return write_file("", json_text(all));
  }
  std::string text =
      fmt::format("{}: {} tokens in {} document{}, the largest of them {}\n", flags.path,
                  facts.tokens, facts.documents, facts.documents == 1 ? "" : "s", facts.largest);
  if (facts.text_bytes)
    text += fmt::format("made from {} bytes of text, {:.2f} for a token\n", *facts.text_bytes,
                        static_cast<double>(*facts.text_bytes) / static_cast<double>(facts.tokens));
  if (facts.learned < facts.tokens)
    text += fmt::format("{:.1f} % of them are learned, the others are context\n", 100 * share);
  write_file("", text + fmt::format("begins with \"{}\"\n", printable_line(begins)));
}

void inspect_images(const InspectFlags& flags) {
  const data::ImageSet set(flags.path);
  const data::SetDescription& d = set.description();
  if (flags.json) {
    auto all = nlohmann::json::parse(data::to_json(d));
    all["kind"] = "images";
    all["samples"] = set.size();
    return write_file("", json_text(all));
  }
  std::string text =
      fmt::format("{}: {} samples, {} images of {} x {} x {}, at most {} to a sample\n", flags.path,
                  set.size(), d.images, d.width, d.height, d.channels, d.capacity);
  if (d.labels > 0) text += fmt::format("{} classes", d.labels);
  if (!d.classes.empty()) text += fmt::format(": {}", fmt::join(d.classes, ", "));
  text += d.labels > 0 ? "\n" : "no classes\n";
  if (d.skipped > 0) text += fmt::format("{} samples were skipped\n", d.skipped);
  write_file("", text);
}

bool is_image_set(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  const auto file = cleave::File::open(path);
  std::uint64_t magic = 0;
  if (file.size() < static_cast<std::int64_t>(sizeof(data::SetHeader))) return false;
  file.read(std::as_writable_bytes(std::span(&magic, 1)), 0);
  return magic == data::kSetMagic;
}

}  // namespace

void add_inspect_command(CLI::App& data) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = data.add_subcommand("inspect", "Say what a run would find in some data.");
  command->footer(
      "Examples:\n"
      "  cleave data inspect corpus.bin\n"
      "  cleave data inspect talk.jsonl --tokenizer model/tokenizer.json\n"
      "  cleave data inspect photos.set");
  command
      ->add_option("path", flags->path,
                   "Tokens, text, .jsonl, also .gz and .zst; a directory, a pattern; a packed set")
      ->required();
  command->add_option("--tokenizer", flags->tokenizer,
                      "Of text, and to show tokens as text; left out: bytes");
  command->add_option("--dtype", flags->type, "Of the tokens in .bin files: auto, u16 or u32")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback(
      [flags] { is_image_set(flags->path) ? inspect_images(*flags) : inspect_tokens(*flags); });
}

}  // namespace cleave::app
