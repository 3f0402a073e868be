#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "byte_progress.h"
#include "data_command.h"
#include "files.h"
#include "text_inputs.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/utf8.h"
#include "cleave/data/token_writer.h"
#include "cleave/data/tokenize.h"

namespace cleave::app {
namespace {

struct TokenizeFlags {
  std::vector<std::string> inputs;
  std::string tokenizer = "bytes";
  std::string out;
  std::string end_token;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  bool json = false;
  bool json_lines = false;
};

struct Totals {
  std::int64_t documents = 0;
  std::int64_t bytes = 0;
  std::int64_t tokens = 0;
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
    fmt::print("{}\n", line.dump());
  }
}

void print_summary(const TokenizeFlags& flags, const Totals& totals, double seconds) {
  const auto per_token = static_cast<double>(totals.bytes) / static_cast<double>(totals.tokens);
  const double rate = static_cast<double>(totals.bytes) / 1e6 / seconds;
  if (flags.json) {
    const nlohmann::json all = {
        {"out", flags.out},        {"documents", totals.documents}, {"bytes", totals.bytes},
        {"tokens", totals.tokens}, {"bytes_per_token", per_token},  {"seconds", seconds}};
    return write_file("", all.dump() + '\n');
  }
  write_file("", fmt::format("{}: {} tokens of {} documents, {:.2f} bytes each, {:.1f} MB/s\n",
                             flags.out, totals.tokens, totals.documents, per_token, rate));
}

void tokenize(const TokenizeFlags& flags) {
  require(flags.threads >= 1, "--threads ", flags.threads, " must be at least 1");
  require(flags.json_lines != !flags.out.empty(),
          "say where the tokens go: either --out FILE or --json-lines");
  const auto begin = std::chrono::steady_clock::now();
  const auto tokenizer = data::open_tokenizer(flags.tokenizer);
  const auto end_token = flags.json_lines ? std::nullopt : end_token_of(flags, *tokenizer);
  data::ParallelTokenizer parallel(*tokenizer, {.threads = flags.threads, .end_token = end_token});
  const TextInputs inputs(flags.inputs);
  std::optional<data::TokenWriter> writer;
  if (!flags.out.empty()) writer.emplace(flags.out, tokenizer->vocabulary());
  Totals totals;
  ByteProgress progress("tokenizing", inputs.bytes());
  inputs.for_each_round([&](const std::vector<std::string_view>& documents) {
    const auto all = parallel.encode(documents, [&](auto bytes) { progress.advance(bytes); });
    if (flags.json_lines) print_lines(*tokenizer, all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      totals.bytes += static_cast<std::int64_t>(documents[i].size());
      totals.tokens += static_cast<std::int64_t>(all[i].size());
      if (writer) writer->append(all[i]);
    }
    totals.documents += static_cast<std::int64_t>(documents.size());
  });
  require(flags.json_lines || totals.tokens > 0, "the inputs have no text");
  if (!writer) return;
  writer->finish();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  print_summary(flags, totals, seconds.count());
}

}  // namespace

void add_tokenize_command(CLI::App& data) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command = data.add_subcommand("tokenize", "Turn text into a packed file of tokens.");
  command->footer(
      "Examples:\n"
      "  cleave data tokenize books/ --tokenizer llama/tokenizer.json --out books.npy\n"
      "  zcat corpus.jsonl.gz | cleave data tokenize - --tokenizer gpt2 --out corpus.bin\n"
      "Every file, or line of a .jsonl file, is a document; the tokenizer's end token follows it.");
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
  command->add_option("--threads", flags->threads, "Default: all cores")->capture_default_str();
  command->add_flag("--json", flags->json, "Print the summary as one JSON object");
  command->add_flag("--json-lines", flags->json_lines,
                    "Print {\"tokens\", \"text\"} for each document instead of writing a file");
  command->callback([flags] { tokenize(*flags); });
}

}  // namespace cleave::app
