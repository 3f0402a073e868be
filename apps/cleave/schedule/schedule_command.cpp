#include <memory>

#include "command.h"
#include "files.h"
#include "schedule/schedule_output.h"
#include "schedule/schedule_run.h"
#include "streams.h"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/plan/order/auto_schedule.h"

namespace cleave::app {

namespace {

struct ScheduleFlags {
  ScheduleQuery query;
  std::string format;
  std::string path;
  bool json = false;
  bool final = false;
};

void run(const ScheduleFlags& flags, Exit& answer) {
  const ScheduleFormat format = parse_format(flags.format, flags.path);
  require(!flags.json || flags.format.empty() || !flags.path.empty(), "--json and --format ",
          flags.format, " both want standard output; give the format a file with --output");
  require(flags.query.costs.file.empty() || flags.query.costs.uniform == CostFlags{}.uniform,
          "--cost and --costs exclude each other; give one of them");

  require(!flags.final || format == ScheduleFormat::Text,
          "--final says which program to write; it goes with --format text");

  std::vector<ScheduleRun> runs = run_schedules(flags.query);
  for (const ScheduleRun& run : runs) {
    for (const std::string& violation : run.violations) {
      complain("cleave: {}: {}\n", run.name, violation);
      answer = Exit::Failed;
    }
  }
  if (flags.json) write_file("", to_json(runs));
  if (flags.final) runs.front().program = runs.front().final;
  const bool picture_wanted = !flags.json || !flags.path.empty();
  if (answer != Exit::Done || !picture_wanted) return;
  const bool to_terminal = flags.path.empty();
  write_file(
      flags.path,
      render(runs, format, to_terminal ? report::terminal_of(STDOUT_FILENO) : report::Terminal{}));
}

std::string kinds() {
  return fmt::format("Kinds: {}.\n", fmt::join(plan::schedule_names(), ", "));
}

}  // namespace

void add_schedule_command(CLI::App& app, Exit& answer) {
  auto flags = std::make_shared<ScheduleFlags>();
  ScheduleQuery& query = flags->query;
  CLI::App* verb = app.add_subcommand("schedule", "Make, verify, time and draw a schedule.");
  verb->add_option("kind", query.kinds,
                   "A schedule, auto, or a file; several with commas to compare")
      ->required();
  verb->add_option("--stages", query.stages, "Devices of the pipeline");
  verb->add_option("--microbatches", query.microbatches, "Microbatches of a step");
  verb->add_option("--chunks", query.chunks,
                   "Stages on each device (default: what the kind wants)");
  verb->add_option("--graph", query.graph,
                   "Who feeds whom, as in 0>1,1>3,2>3, or a file with that; default: a chain");
  verb->add_option("--frozen", query.frozen, "Stages whose weights do not learn, as in 0,1");
  verb->add_option("--absent", query.absent,
                   "stage:microbatch that the stage has no part in, as in 0:1,0:3");
  verb->add_option("--replicas", query.replicas,
                   "stage:replicas, as in 0:4,1:2; the others have one. Microbatches are those of "
                   "a replica of the stage that has the most");
  verb->add_option("--cost", query.costs.uniform,
                   "Time of F, I, W per device and microbatch, and of a message")
      ->capture_default_str();
  verb->add_option("--costs", query.costs.file,
                   "The same per stage: a CSV file with heading f,i,w,comm and a row per stage");
  verb->add_option("--memory", query.memory, "Most microbatches alive on a device");
  verb->add_option("--format", flags->format,
                   "text (the program), csv (torch.distributed.pipelining), svg, html or trace "
                   "(Perfetto); default: a picture in letters");
  verb->add_option("--output", flags->path, "Write there; its ending may stand for --format");
  verb->add_flag("--final", flags->final,
                 "With --format text: the program with its messages, reductions and optimizer");
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->footer(
      kinds() +
      "Examples:\n"
      "  cleave schedule 1f1b --stages 4 --microbatches 8\n"
      "  cleave schedule 1f1b --graph \"0>1,1>3,2>3,3>4,4>5\" --frozen 0,1 --microbatches 24\n"
      "  cleave schedule 1f1b --stages 3 --replicas 0:4,1:2,2:2 --microbatches 6\n"
      "  cleave schedule 1f1b,zb-h1,zbv --stages 8 --microbatches 24 --cost f=1,i=1,w=0.8,comm=0.1 "
      "--output compare.html");
  verb->callback([flags, &answer] { run(*flags, answer); });
}

}  // namespace cleave::app
