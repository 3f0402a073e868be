#include <memory>

#include "command.h"
#include "edge/verify_flow.h"
#include "files.h"
#include "json_text.h"
#include "schedule/program_file.h"
#include "schedule/schedule_run.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cleave::app {

namespace {

struct VerifyFlags {
  std::string path;
  std::vector<std::string> set;
  std::vector<std::string> policies;
  bool flow = false;
  bool json = false;
};

void run(const VerifyFlags& flags, Exit& answer) {
  if (flags.flow)
    return verify_flow(
        {.config = flags.path, .set = flags.set, .policies = flags.policies, .json = flags.json},
        answer);
  const schedule::Program program = read_program(flags.path);
  schedule::Program final;
  const std::vector<std::string> violations = violations_of(program, final);
  if (!violations.empty()) answer = Exit::Failed;

  if (flags.json) {
    const nlohmann::json json = {{"verified", violations.empty()}, {"violations", violations}};
    return write_file("", json_text(json));
  }
  std::string out = violations.empty()
                        ? fmt::format("verified: {} instructions on {} devices\n",
                                      schedule::instruction_count(final), final.devices)
                        : "";
  for (const std::string& violation : violations) out += violation + '\n';
  write_file("", out);
}

}  // namespace

void add_verify_command(CLI::App& app, Exit& answer) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* verb = app.add_subcommand(
      "verify",
      "Prove that a program cannot deadlock, race, run out of memory or miss a gradient.");
  verb->add_option("file", flags->path,
                   "A program in text form or as torch CSV; - is standard input. With --flow: "
                   "a config")
      ->required();
  CLI::Option* flow = verb->add_flag(
      "--flow", flags->flow,
      "Print what leaves which owner of a config, as what, and how many bytes per step");
  verb->add_option("--set", flags->set, "With --flow: override a key (repeatable)")
      ->allow_extra_args(false)
      ->needs(flow);
  verb->add_option("--policy", flags->policies,
                   "With --flow: what an owner allows, whatever the config says (repeatable)")
      ->allow_extra_args(false)
      ->needs(flow);
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->footer(
      "Prints \"verified\" and exits 0, or prints one line per violation and exits 1.\n"
      "A program without messages is verified as written, then with the messages that cleave "
      "adds.\n"
      "Examples:\n"
      "  cleave schedule 1f1b --stages 4 --microbatches 8 --format text | cleave verify -\n"
      "  cleave verify --flow examples/split/run.toml");
  verb->callback([flags, &answer] { run(*flags, answer); });
}

}  // namespace cleave::app
