#include <memory>

#include "command.h"
#include "files.h"
#include "plan/plan_config.h"
#include "plan/plan_export.h"
#include "plan/plan_output.h"
#include "streams.h"
#include <fmt/format.h>

#include "cleave/base/check.h"

namespace cleave::app {

namespace {

struct PlanOptions {
  PlanFlags flags;
  PlanConfigFlags run;
};

/// A config and a cluster are different questions.
void check_config_alone(const PlanFlags& flags) {
  require(flags.model.empty() && flags.cluster.empty() && !flags.layout && flags.trained.empty() &&
              flags.batch == 0,
          "cleave plan takes a run config, or --model, --cluster, --batch and --layout, not both; "
          "leave one out (keys of a config are changed with --set)");
  require(flags.system.empty(), "--export ", flags.system,
          " prints layouts that are planned with --model and --cluster, not that of a run config; "
          "leave it out, or give these in place of the config");
  require(flags.tokens.empty(), "--tokens ", flags.tokens,
          " goes with --model and --cluster; leave it out: how long a run config trains is its "
          "train.steps");
  require(!flags.price, "--price ", flags.price.value_or(0),
          " goes with --model, --cluster and --tokens; leave it out, or give these in place of the "
          "config");
}

void run(PlanOptions& options, Exit& exit) {
  if (!options.run.config.empty()) {
    check_config_alone(options.flags);
    return plan_config(options.run, exit);
  }
  require(!options.flags.model.empty() && !options.flags.cluster.empty(),
          "cleave plan needs a run config, or --model, --cluster and --batch, as in: cleave plan "
          "--model gpt3-175b "
          "--cluster a100-80gb:1024 --batch 1536");
  require(options.run.trace.empty() && options.run.set.empty() && !options.run.remeasure,
          options.run.trace.empty() ? options.run.set.empty() ? "--remeasure" : "--set" : "--trace",
          " belongs to a run config; with --model leave it out, or give a config in place of it");
  if (!options.flags.system.empty()) system_title(options.flags.system);  // refuses unknown names
  if (options.flags.cluster.ends_with(".toml"))
    read_cluster_file(options.flags.cluster, options.flags.file);
  PlanAnswer answer = ask(options.flags);
  answer.length = run_length(options.flags, answer.workload, answer.choice());
  const std::string& system = options.flags.system;
  const bool exports = !system.empty() && !answer.search.fitting.empty();
  const bool json = options.run.json;
  write_file("", exports ? (json ? export_json(system, answer) : export_text(system, answer))
                         : (json ? to_json(answer) : to_text(answer)));
  if (exports && answer.searched && !json) complain("cleave: {}\n", describe_search(answer));
  if (answer.search.fitting.empty()) {
    complain("cleave: {}\n", refusal(answer));
    exit = Exit::DoesNotFit;
  }
}

}  // namespace

void add_plan_command(CLI::App& app, Exit& answer) {
  auto options = std::make_shared<PlanOptions>();
  PlanFlags& flags = options->flags;
  CLI::App* verb = app.add_subcommand("plan", "Choose a layout and predict its time and memory.");
  verb->add_option("config", options->run.config, "A run of this machine: TOML file");
  verb->add_option("--set", options->run.set, "Override a key of it: parallel.pipeline=auto")
      ->allow_extra_args(false);
  verb->add_option("--trace", options->run.trace,
                   "Write its predicted step there: .json, .html or .svg");
  verb->add_option("--model", flags.model,
                   "A preset, or kind=gpt|llama,layers=,hidden=,heads=,kv_heads=,ffn=,vocab=,"
                   "sequence=,attention=flash|plain");
  verb->add_option("--cluster", flags.cluster,
                   "Hardware and number of devices: a100-80gb:1024; or a TOML file that describes "
                   "them (docs/planner.md)");
  verb->add_option("--train", flags.trained,
                   "With --model, what learns: modules or patterns of names, as in "
                   "projector,language; left out: all");
  verb->add_option("--batch", flags.batch, "Sequences per step, all devices together");
  verb->add_option("--tokens", flags.tokens,
                   "Of the whole run, such as 300B or 15T: says how many days it takes");
  verb->add_option("--price", flags.price, "Of a device and hour: says what the run costs");
  verb->add_option("--export", flags.system,
                   "Print the layout for another system instead: megatron (flags), torchtitan "
                   "(TOML) or deepspeed (JSON)");
  verb->add_option("--layout", flags.layout,
                   "Predict one layout: tp=,pp=,dp=,microbatch=,chunks=,schedule=,zero=,recompute="
                   "none|selective|full,sequence_parallel=true|false; left out: search");
  verb->add_flag("--remeasure", options->run.remeasure,
                 "Measure this machine again instead of taking what was measured before");
  verb->add_flag("--json", options->run.json, "Print one JSON object");
  verb->footer(
      "Examples:\n"
      "  cleave plan run.toml --set parallel.pipeline=auto --set devices.count=4\n"
      "  cleave plan --model gpt3-175b --cluster a100-80gb:1024 --batch 1536\n"
      "  cleave plan --model preset=llava-1.5-7b,sequence=2048 --train projector,language "
      "--cluster a100-80gb:16 --batch 128\n"
      "  cleave plan --model llama3-8b --cluster h100:64 --batch 512 --tokens 1T --price 2.5\n"
      "  cleave plan --model llama3-8b --cluster h100:64 --batch 512 --export torchtitan\n"
      "  cleave plan --model kind=gpt,layers=60,hidden=10240,heads=80,sequence=2048 "
      "--cluster a100-80gb:1024 --batch 1792 --layout tp=8,pp=4,microbatch=2,chunks=3,"
      "recompute=full");
  verb->callback([options, &answer] { run(*options, answer); });
}

}  // namespace cleave::app
