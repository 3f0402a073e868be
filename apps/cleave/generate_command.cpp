#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "command.h"
#include "files.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/units.h"
#include "cleave/base/utf8.h"
#include "cleave/runtime/machine.h"
#include "cleave/train/checkpoint_directory.h"
#include "cleave/train/generator.h"

namespace cleave::app {
namespace {

struct Flags {
  std::string path;
  std::string memory;
  train::GenerateOptions options;
  bool json = false;
};

/// A token as it is printed; bytes wait until they are a character.
std::string text_of(const train::Generator& generator, std::int32_t token, Utf8Stream& stream) {
  if (generator.tokens() == train::Tokens::Numbers || token > 255) return fmt::format(" {}", token);
  return stream.add(static_cast<unsigned char>(token));
}

void generate(Flags& flags) {
  using Clock = std::chrono::steady_clock;
  if (!flags.memory.empty()) flags.options.budget = parse_bytes(flags.memory);
  const std::string warning =
      runtime::thread_warning(flags.options.threads, runtime::allowed_threads());
  if (!warning.empty()) fmt::print(stderr, "cleave: warning: {}\n", warning);
  const train::CheckpointReader checkpoint(train::find_checkpoint(flags.path));
  train::Generator generator(checkpoint, flags.options);

  const Clock::time_point start = Clock::now();
  std::vector<std::int32_t> tokens;
  std::string text;
  Utf8Stream stream;
  const auto emit = [&](const std::string& piece) {
    text += piece;
    if (flags.json || piece.empty()) return;
    write_file("", piece);
    std::fflush(stdout);
  };
  if (!flags.json) write_file("", printable(flags.options.prompt));
  while (const auto token = generator.next()) {
    tokens.push_back(*token);
    emit(text_of(generator, *token, stream));
  }
  emit(stream.finish());
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();

  const std::int64_t missing = flags.options.tokens - generator.drawn();
  const std::int64_t context = generator.config().model.context;
  if (flags.json) {
    const nlohmann::json all = {{"checkpoint", checkpoint.path().string()},
                                {"step", checkpoint.state().step},
                                {"prompt", printable(flags.options.prompt)},
                                {"prompt_tokens", generator.prompt_tokens()},
                                {"text", text},
                                {"tokens", tokens},
                                {"stopped", missing > 0 ? "context" : "tokens"},
                                {"seconds", seconds},
                                {"planned_bytes", generator.decoder().planned_bytes()},
                                {"peak_bytes", generator.decoder().arena().peak()}};
    return write_file("", all.dump() + '\n');
  }
  write_file("", "\n");
  fmt::print(stderr, "{} tokens in {}, {} of memory\n", generator.drawn(), format_seconds(seconds),
             format_bytes(generator.decoder().planned_bytes()));
  if (missing > 0) {
    fmt::print(stderr,
               "stopped {} tokens early: the model's context of {} is full; to continue, prompt it "
               "with the end of this text\n",
               missing, context);
  }
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  train::GenerateOptions& options = flags->options;
  CLI::App* command = app.add_subcommand("generate", "Sample from a trained model.");
  command->footer(
      "Example:\n"
      "  cleave generate out --prompt 'The ' --tokens 100 --temperature 0.8 --top-k 40");
  command->add_option("dir", flags->path, "A checkpoint, or a run's out directory for its latest")
      ->required();
  command->add_option("--prompt", options.prompt, "Text to continue");
  command->add_option("--tokens", options.tokens, "How many to generate")->capture_default_str();
  command
      ->add_option("--temperature", options.sample.temperature,
                   "Below 1 safer, above 1 wilder; 0: always the likeliest")
      ->capture_default_str();
  command
      ->add_option("--top-k", options.sample.top_k, "Draw from the k likeliest only; 0: from all")
      ->capture_default_str();
  command->add_option("--seed", options.seed, "Same seed, same text")->capture_default_str();
  command->add_option("--threads", options.threads, "To compute with")->capture_default_str();
  command->add_option("--memory", flags->memory, "Budget, as 96MiB; exit 3 if it does not fit");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { generate(*flags); });
}

}  // namespace cleave::app
