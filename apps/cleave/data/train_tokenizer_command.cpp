#include <memory>
#include <string>

#include "byte_progress.h"
#include "data_command.h"
#include "files.h"
#include "json_text.h"
#include "text_inputs.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/base/threads.h"
#include "cleave/data/tokenizer/tokenizer.h"
#include "cleave/data/tokenizer/train_bpe.h"

namespace cleave::app {
namespace {

struct TrainTokenizerFlags {
  std::vector<std::string> inputs;
  std::string out = "tokenizer.json";
  data::BpeTraining training;
  int threads = all_threads();
  bool json = false;
};

data::WordCounts count_words(const TrainTokenizerFlags& flags) {
  const TextInputs inputs(flags.inputs);
  std::vector<data::WordCounter> counters;
  for (int i = 0; i < flags.threads; ++i) counters.emplace_back(flags.training.pattern);
  ByteProgress progress("counting words", inputs.bytes());
  inputs.for_each_round([&](const TextInputs::Round& round) {
    const std::vector<std::string_view>& documents = round.documents;
    run_on_threads(flags.threads, [&](int thread) {
      const auto t = static_cast<std::size_t>(thread);
      for (std::size_t i = t; i < documents.size(); i += counters.size())
        counters[t].add(documents[i]);
    });
    for (const std::string_view text : documents) {
      progress.advance(static_cast<std::int64_t>(text.size()));
    }
  });
  data::WordCounts all = std::move(counters[0].counts());
  for (std::size_t t = 1; t < counters.size(); ++t) {
    for (const auto& [word, count] : counters[t].counts()) all[word] += count;
  }
  require(!all.empty(), "the inputs have no text to learn from");
  return all;
}

void train_tokenizer(const TrainTokenizerFlags& flags) {
  require(flags.threads >= 1, "--threads ", flags.threads, " must be at least 1");
  require(flags.out.ends_with(".json"), "--out ", flags.out, " must end in .json");
  const data::WordCounts words = count_words(flags);
  std::string text;
  {
    ByteProgress progress("merging", flags.training.vocabulary);
    text = data::train_bpe(words, flags.training,
                           [&](std::int64_t done, std::int64_t) { progress.show(done); });
  }
  const auto vocabulary = data::parse_tokenizer_json(text)->vocabulary();
  write_text_atomically(flags.out, text);
  if (flags.json) {
    const nlohmann::json all = {
        {"out", flags.out}, {"vocabulary", vocabulary}, {"words", words.size()}};
    return write_file("", json_text(all));
  }
  const std::string less =
      vocabulary < flags.training.vocabulary ? " (no other pair occurs often enough)" : "";
  write_file("", fmt::format("{}: {} tokens from {} different words{}\n", flags.out, vocabulary,
                             words.size(), less));
}

}  // namespace

void add_train_tokenizer_command(CLI::App& data) {
  auto flags = std::make_shared<TrainTokenizerFlags>();
  CLI::App* command =
      data.add_subcommand("train-tokenizer", "Learn a byte-level BPE tokenizer from text.");
  command->footer(
      "Example:\n"
      "  cleave data train-tokenizer books/ --vocab 8192 --out tokenizer.json\n"
      "The file is one that Hugging Face's AutoTokenizer and data.tokenizer open.");
  command
      ->add_option("inputs", flags->inputs,
                   "Text or .jsonl files, also .gz and .zst; directories; - for standard input")
      ->required();
  command->add_option("--vocab", flags->training.vocabulary, "Tokens")->capture_default_str();
  command->add_option("--out", flags->out, "Where it goes")->capture_default_str();
  command
      ->add_option("--pattern", flags->training.pattern,
                   "How text is cut into words: gpt4, gpt2 or a regular expression")
      ->capture_default_str();
  command->add_option("--least", flags->training.least_count, "Occurrences of a pair to be merged")
      ->capture_default_str();
  command->add_option("--special", flags->training.special_tokens, "Special tokens, numbered first")
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "How many (default: all cores)");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { train_tokenizer(*flags); });
}

}  // namespace cleave::app
