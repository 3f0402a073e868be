#include <chrono>
#include <memory>

#include "command.h"
#include "files.h"
#include "plan_output.h"
#include "plan_query.h"
#include <fmt/format.h>

#include "cleave/base/check.h"

namespace cleave::app {

namespace {

struct Options {
  PlanFlags flags;
  bool json = false;
};

PlanAnswer ask(const PlanFlags& flags) {
  PlanAnswer answer{.workload = parse_workload(flags), .searched = !flags.layout};
  const auto start = std::chrono::steady_clock::now();
  if (flags.layout) {
    plan::Prediction one =
        plan::Predictor(answer.workload).predict(parse_layout(*flags.layout, answer.workload));
    (one.fits ? answer.search.best : answer.search.nearest).push_back(std::move(one));
  } else {
    answer.search = plan::search_layouts(answer.workload);
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  answer.search_seconds = taken.count();
  require(!answer.search.best.empty() || !answer.search.nearest.empty(), "no data degree of ",
          answer.workload.cluster.devices, " devices divides --batch ", answer.workload.batch,
          "; give a batch that has more divisors, such as a multiple of ",
          answer.workload.cluster.devices);
  return answer;
}

void run(const Options& options, Exit& exit) {
  require(!options.flags.model.empty() && !options.flags.cluster.empty(),
          "cleave plan needs --model, --cluster and --batch, as in: cleave plan --model gpt3-175b "
          "--cluster a100-80gb:1024 --batch 1536");
  const PlanAnswer answer = ask(options.flags);
  write_file("", options.json ? to_json(answer) : to_text(answer));
  if (answer.search.best.empty()) {
    fmt::print(stderr, "cleave: {}\n", refusal(answer));
    exit = Exit::DoesNotFit;
  }
}

}  // namespace

void add_plan_command(CLI::App& app, Exit& answer) {
  auto options = std::make_shared<Options>();
  PlanFlags& flags = options->flags;
  CLI::App* verb = app.add_subcommand("plan", "Choose a layout and predict its time and memory.");
  verb->add_option("--model", flags.model,
                   "A preset, or kind=gpt|llama,layers=,hidden=,heads=,kv_heads=,ffn=,vocab=,"
                   "sequence=,attention=flash|plain");
  verb->add_option("--cluster", flags.cluster, "Hardware and number of devices: a100-80gb:1024");
  verb->add_option("--batch", flags.batch, "Sequences per step, all devices together");
  verb->add_option("--layout", flags.layout,
                   "Predict one layout: tp=,pp=,dp=,microbatch=,chunks=,schedule=,zero=,recompute="
                   "none|selective|full,sequence_parallel=true|false; left out: search");
  verb->add_flag("--json", options->json, "Print one JSON object");
  verb->footer(
      "Examples:\n"
      "  cleave plan --model gpt3-175b --cluster a100-80gb:1024 --batch 1536\n"
      "  cleave plan --model kind=gpt,layers=60,hidden=10240,heads=80,vocab=51200,sequence=2048 "
      "--cluster a100-80gb:1024 --batch 1792 --layout tp=8,pp=4,microbatch=2,chunks=3,"
      "recompute=full");
  verb->callback([options, &answer] { run(*options, answer); });
}

}  // namespace cleave::app
