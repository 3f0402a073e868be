#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "byte_progress.h"
#include "data_command.h"
#include "files.h"
#include "json_text.h"
#include "text_inputs.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/threads.h"
#include "cleave/base/utf8.h"
#include "cleave/data/chat.h"
#include "cleave/data/token_writer.h"
#include "cleave/data/tokenize.h"

namespace cleave::app {
namespace {

struct TokenizeFlags {
  std::vector<std::string> inputs;
  std::string tokenizer = "bytes";
  std::string out;
  std::string end_token;
  std::string chat;  ///< name of a template; empty: by the tokenizer
  int threads = all_threads();
  bool json = false;
  bool json_lines = false;
};

struct Totals {
  std::int64_t documents = 0;
  std::int64_t bytes = 0;
  std::int64_t tokens = 0;
  std::int64_t learned = 0;
};

std::optional<std::int32_t> end_token_of(const TokenizeFlags& flags,
                                         const data::Tokenizer& tokenizer) {
  if (flags.end_token == "none") return std::nullopt;
  if (flags.end_token.empty()) return tokenizer.end_token();
  const auto token = tokenizer.id_of(flags.end_token);
  require(token.has_value(), "--end-token ", flags.end_token, " is no token of ", flags.tokenizer,
          "; name one, or \"none\"");
  return token;
}

void print_lines(const data::Tokenizer& tokenizer,
                 const std::vector<std::vector<std::int32_t>>& documents) {
  for (const auto& tokens : documents) {
    const nlohmann::json line = {
        {"tokens", tokens},
        {"text", with_broken_replaced(tokenizer.decode(tokens, data::Specials::Skip))}};
    fmt::print("{}", json_text(line));
  }
}

const data::ChatTemplate* template_of(const TokenizeFlags& flags,
                                      const data::Tokenizer& tokenizer) {
  if (flags.chat.empty()) return data::chat_template_of(&tokenizer);
  const data::ChatTemplate* known = data::find_chat_template(flags.chat);
  std::string names;
  for (const data::ChatTemplate& one : data::chat_templates())
    names += (names.empty() ? "" : ", ") + one.name;
  require(known != nullptr, "--template ", flags.chat, " is not known; there are ", names);
  return known;
}

/// Tokens of conversations or of other documents, and how many of them are learned.
class TokenSink {
 public:
  TokenSink(const TokenizeFlags& flags, const data::Tokenizer& tokenizer)
      : flags_(flags),
        tokenizer_(tokenizer),
        parallel_(tokenizer,
                  {.threads = flags.threads,
                   .end_token = flags.json_lines ? std::nullopt : end_token_of(flags, tokenizer)}) {
  }

  void add(const TextInputs::Round& round, ByteProgress& progress) {
    const auto& texts = round.documents;
    std::int64_t bytes_here = 0;
    for (const std::string_view text : texts) bytes_here += std::ssize(text);
    totals_.bytes += bytes_here;
    totals_.documents += std::ssize(texts);
    if (round.trained.empty()) {
      const auto all = parallel_.encode(texts, [&](auto bytes) { progress.advance(bytes); });
      if (flags_.json_lines) print_lines(tokenizer_, all);
      for (const auto& tokens : all) count(tokens, std::ssize(tokens));
      if (data::TokenWriter* out = writer(data::TokenWriter::Room::OfVocabulary))
        for (const auto& tokens : all) out->append(tokens);
      return;
    }
    require(!flags_.json_lines,
            "--json-lines prints texts, and these are conversations; use --out");
    for (const auto& tokens : data::chat_tokens(texts, round.trained, tokenizer_, flags_.threads)) {
      count(tokens, std::ranges::count_if(tokens, [](std::uint32_t token) {
              return (token & data::kUntrained) == 0;
            }));
      writer(data::TokenWriter::Room::Marked)->append_marked(tokens);
    }
    progress.advance(bytes_here);
  }

  const Totals& totals() const { return totals_; }
  data::TokenWriter* file() { return writer_ ? &*writer_ : nullptr; }

 private:
  void count(const auto& tokens, std::int64_t learned) {
    totals_.tokens += std::ssize(tokens);
    totals_.learned += learned;
  }

  /// Null with --json-lines. What comes first decides how wide the tokens are.
  data::TokenWriter* writer(data::TokenWriter::Room room) {
    if (!writer_ && !flags_.out.empty()) writer_.emplace(flags_.out, tokenizer_.vocabulary(), room);
    return file();
  }

  const TokenizeFlags& flags_;
  const data::Tokenizer& tokenizer_;
  data::ParallelTokenizer parallel_;
  std::optional<data::TokenWriter> writer_;
  Totals totals_;
};

void print_summary(const TokenizeFlags& flags, const Totals& totals, double seconds) {
  const auto per_token = static_cast<double>(totals.bytes) / static_cast<double>(totals.tokens);
  const double rate = static_cast<double>(totals.bytes) / 1e6 / seconds;
  if (flags.json) {
    const nlohmann::json all = {{"out", flags.out},          {"documents", totals.documents},
                                {"bytes", totals.bytes},     {"tokens", totals.tokens},
                                {"learned", totals.learned}, {"bytes_per_token", per_token},
                                {"seconds", seconds}};
    return write_file("", json_text(all));
  }
  const std::string learned = totals.learned == totals.tokens
                                  ? ""
                                  : fmt::format(", of which {} are learned", totals.learned);
  write_file("", fmt::format("{}: {} tokens of {} documents{}, {:.2f} bytes each, {:.1f} MB/s\n",
                             flags.out, totals.tokens, totals.documents, learned, per_token, rate));
}

void tokenize(const TokenizeFlags& flags) {
  require(flags.threads >= 1, "--threads ", flags.threads, " must be at least 1");
  require(flags.json_lines != !flags.out.empty(),
          "say where the tokens go: either --out FILE or --json-lines");
  const auto begin = std::chrono::steady_clock::now();
  const auto tokenizer = data::open_tokenizer(flags.tokenizer);
  TokenSink sink(flags, *tokenizer);
  const TextInputs inputs(flags.inputs, template_of(flags, *tokenizer));
  ByteProgress progress("tokenizing", inputs.bytes());
  inputs.for_each_round([&](const TextInputs::Round& round) { sink.add(round, progress); });
  require(flags.json_lines || sink.totals().tokens > 0, "the inputs have no text");
  if (sink.file() == nullptr) return;
  sink.file()->finish();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  print_summary(flags, sink.totals(), seconds.count());
}

}  // namespace

void add_tokenize_command(CLI::App& data) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command = data.add_subcommand("tokenize", "Turn text into a packed file of tokens.");
  command->footer(
      "Examples:\n"
      "  cleave data tokenize books/ --tokenizer llama/tokenizer.json --out books.npy\n"
      "  zcat corpus.jsonl.gz | cleave data tokenize - --tokenizer gpt2 --out corpus.bin\n"
      "Every file, or line of a .jsonl file, is a document; the tokenizer's end token follows it. "
      "Of conversations (\"messages\") the file remembers that only what the assistant says is "
      "learned.");
  command
      ->add_option("inputs", flags->inputs,
                   "Text or .jsonl files, also .gz and .zst; directories; - for standard input")
      ->required();
  command
      ->add_option("--tokenizer", flags->tokenizer,
                   "\"bytes\", a tokenizer.json, a tokenizer.model, or a directory with one")
      ->capture_default_str();
  command->add_option("--out", flags->out, ".npy, .bin (u16) or .u32.bin (u32)");
  command->add_option("--end-token", flags->end_token,
                      "Token after every document; default the tokenizer's own; \"none\"");
  command->add_option("--template", flags->chat,
                      "How the messages of a .jsonl become text: chatml, llama3, mistral, gemma "
                      "(default: by the tokenizer's tokens)");
  command->add_option("--threads", flags->threads, "How many (default: all cores)");
  command->add_flag("--json", flags->json, "Print the summary as one JSON object");
  command->add_flag("--json-lines", flags->json_lines,
                    "Print {\"tokens\", \"text\"} for each document instead of writing a file");
  command->callback([flags] { tokenize(*flags); });
}

}  // namespace cleave::app
