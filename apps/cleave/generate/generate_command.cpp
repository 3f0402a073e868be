#include <memory>
#include <optional>
#include <string>

#include "command.h"
#include "files.h"
#include "generate/generate_output.h"
#include "ranks.h"
#include "streams.h"
#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/comm/together.h"
#include "cleave/data/documents.h"
#include "cleave/engine/measure/machine.h"
#include "cleave/train/generate/generate.h"

namespace cleave::app {
namespace {

struct GenerateFlags {
  std::string path;
  std::string memory;
  std::vector<std::string> prompts;
  std::string prompt_file;
  bool chat = false;
  std::string system;
  std::string messages;  ///< file
  train::GenerateOptions options;
  std::optional<int> devices;  ///< default: one, or as many as mpirun started
  bool json = false;
};

/// All processes get the text; standard input is read by the first one alone.
std::string read_for_all(const std::string& path, comm::Communicator& processes) {
  std::string text;
  comm::together(processes, [&] {
    if (processes.rank() == 0) text = read_file(path);
  });
  comm::broadcast(processes, text);
  return text;
}

/// What --prompt and --prompt-file say; one empty prompt if they say nothing.
std::vector<std::string> prompts_of(const GenerateFlags& flags, comm::Communicator& processes) {
  std::vector<std::string> prompts = flags.prompts;
  if (!flags.prompt_file.empty()) prompts.push_back(read_for_all(flags.prompt_file, processes));
  return prompts.empty() ? std::vector<std::string>{""} : prompts;
}

void check_chat(const GenerateFlags& flags) {
  const bool prompted = !flags.prompts.empty() || !flags.prompt_file.empty();
  require(flags.system.empty() || flags.chat, "--system is for --chat; pass both");
  require(!flags.chat || prompted, "--chat answers nothing; pass --prompt with what a user says");
  require(flags.messages.empty() || (!flags.chat && !prompted),
          "--messages has the whole conversation; leave out --chat, --prompt and --prompt-file");
}

/// The conversations that --chat and --messages ask for, and what is shown of them.
void add_conversations(GenerateFlags& flags, comm::Communicator& processes) {
  train::GenerateOptions& options = flags.options;
  if (!flags.messages.empty()) {
    const std::string text = read_for_all(flags.messages, processes);
    comm::together(processes, [&] {
      options.conversations.push_back(data::parse_messages(text, flags.messages));
      options.prompts = {options.conversations.front().back().content};
    });
  }
  if (!flags.chat) return;
  for (const std::string& said : options.prompts) {
    std::vector<data::ChatMessage>& messages = options.conversations.emplace_back();
    if (!flags.system.empty()) messages.push_back({"system", flags.system});
    messages.push_back({"user", said});
  }
}

void generate(GenerateFlags& flags, comm::Launcher& launcher) {
  const bool first = launcher.processes().rank() == 0;
  const int devices = flags.devices.value_or(launcher.devices().value_or(1));
  comm::together(launcher.processes(), [&] { check_chat(flags); });
  flags.options.prompts = prompts_of(flags, launcher.processes());
  add_conversations(flags, launcher.processes());
  comm::together(launcher.processes(), [&] {
    if (!flags.memory.empty()) flags.options.budget = parse_bytes(flags.memory);
    check_devices(flags.devices, launcher);
  });
  const std::string warning =
      engine::thread_warning(flags.options.threads, engine::allowed_threads());
  if (first && !warning.empty()) complain("cleave: warning: {}\n", warning);
  GenerateOutput output(flags.json ? GenerateOutput::Style::Json : GenerateOutput::Style::Text,
                        flags.options.conversations.empty() ? GenerateOutput::Prompts::Shown
                                                            : GenerateOutput::Prompts::LeftOut);
  const train::GenerateReport report =
      train::generate(flags.path, flags.options, devices, output, launcher);
  if (first) output.finish(report, flags.options.tokens);
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto flags = std::make_shared<GenerateFlags>();
  train::GenerateOptions& options = flags->options;
  CLI::App* command = app.add_subcommand("generate", "Sample from a trained model.");
  command->footer(
      "Examples:\n"
      "  cleave generate out --prompt 'The ' --tokens 100 --temperature 0.8 --top-k 40\n"
      "  cleave generate out --prompt-file story.txt --top-p 0.9 --stop 'THE END' --samples 3\n"
      "  cleave generate out --chat --system 'Be brief.' --prompt 'What is a pipeline?'\n"
      "  cleave generate out --image cat.png --prompt 'What is this?'\n"
      "  mpirun -np 4 cleave generate out --memory 96MiB");
  command->add_option("dir", flags->path, "A checkpoint, or a run's out directory for its latest")
      ->required();
  command->add_option("--prompt", flags->prompts, "Text to continue; may be given several times")
      ->expected(1)
      ->take_all();
  command->add_option("--prompt-file", flags->prompt_file,
                      "File with a text to continue; - for standard input");
  command->add_flag("--chat", flags->chat,
                    "Prompts are what a user says, and are answered: in the template of the "
                    "training, or that of the tokenizer's tokens");
  command->add_option("--system", flags->system, "With --chat: what the system says first");
  command->add_option("--messages", flags->messages,
                      "JSON file with a conversation to answer, as training reads them; - for "
                      "standard input");
  command
      ->add_option(
          "--image", options.images,
          "Image that the prompt is about, for models that read both; may be given several "
          "times, and <image> in the prompt says where each stands")
      ->expected(1)
      ->take_all();
  command->add_option("--samples", options.samples, "Texts for each prompt")->capture_default_str();
  command->add_option("--tokens", options.tokens, "How many to generate")->capture_default_str();
  command
      ->add_option("--temperature", options.sample.temperature,
                   "Below 1 safer, above 1 wilder; 0: always the likeliest")
      ->capture_default_str();
  command
      ->add_option("--top-k", options.sample.top_k, "Draw from the k likeliest only; 0: from all")
      ->capture_default_str();
  command
      ->add_option("--top-p", options.sample.top_p,
                   "Draw from the likeliest that have this probability together; 1: from all")
      ->capture_default_str();
  command
      ->add_option("--min-p", options.sample.min_p,
                   "Draw from what is at least this likely beside the likeliest; 0: from all")
      ->capture_default_str();
  command
      ->add_option("--repetition-penalty", options.sample.repetition_penalty,
                   "Above 1: tokens that came before are less likely")
      ->capture_default_str();
  command->add_option("--stop", options.stops, "End before this text; may be given several times")
      ->expected(1)
      ->take_all();
  command->add_flag("--past-end", options.past_end, "Go on after the token that ends a document");
  command->add_option("--seed", options.seed, "Same seed, same text")->capture_default_str();
  command->add_option("--devices", flags->devices,
                      "Share the model between this many threads; under mpirun: its processes");
  command->add_option("--threads", options.threads, "Of each device")->capture_default_str();
  command->add_option("--memory", flags->memory,
                      "Budget of each device, as 96MiB; exit 3 if it does not fit");
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback(
      [flags] { on_ranks([&](comm::Launcher& launcher) { generate(*flags, launcher); }); });
}

}  // namespace cleave::app
