#include "schedule/schedule_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "schedule/graph_flags.h"
#include "schedule/program_file.h"
#include "streams.h"
#include "words.h"
#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"
#include "cleave/plan/order/auto_schedule.h"
#include "cleave/plan/time/simulator.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/verifier.h"

namespace cleave::app {

namespace {

using schedule::Program;

Program read_program_for(const std::string& path, const ScheduleQuery& query) {
  require(
      query.graph.empty() && query.frozen.empty() && query.absent.empty() && query.replicas.empty(),
      path,
      " says itself who feeds whom, what learns and what is absent; leave out --graph, --frozen, "
      "--absent and --replicas");
  Program program = read_program(path);
  const auto agree = [&](const char* flag, std::optional<int> wanted, int found) {
    require(!wanted || *wanted == found, flag, " ", wanted.value_or(0), " does not agree with ",
            path, ", which has ", found, "; leave it out");
  };
  agree("--stages", query.stages, program.devices);
  agree("--microbatches", query.microbatches, program.microbatches);
  return program;
}

schedule::PipelineShape shape_of(std::string_view kind, const ScheduleQuery& query) {
  schedule::PipelineShape shape{.chunks = query.chunks, .graph = parse_graph(query.graph)};
  require((query.stages || !shape.graph.empty()) && query.microbatches, "schedule ", kind,
          " needs --stages and --microbatches, as in: cleave schedule ", kind,
          " --stages 4 --microbatches 8");
  shape.devices = shape.graph.empty() ? *query.stages : stages_of(shape.graph, query.stages);
  shape.microbatches = *query.microbatches;
  require(shape.devices >= 1, "--stages ", shape.devices, " must be at least 1");
  require(shape.microbatches >= 1, "--microbatches ", shape.microbatches, " must be at least 1");
  require(query.chunks >= 0, "--chunks ", query.chunks, " must be at least 1");
  shape.frozen = parse_frozen(query.frozen);
  shape.absent = parse_absent(query.absent);
  shape.replicas = parse_replicas(query.replicas, shape.devices);
  return shape;
}

Program generate_for(std::string_view kind, const ScheduleQuery& query, const CostTable& table) {
  const std::vector<std::string_view> known = plan::schedule_names();
  if (std::ranges::count(known, kind) == 0) {
    const std::string hint = did_you_mean(kind, known);
    throw UserError(fmt::format(
        "unknown schedule '{}'{}", kind,
        hint.empty() ? fmt::format("; give a file that exists or one of {}", fmt::join(known, ", "))
                     : hint));
  }
  const auto costs = [&](const Program& layout) { return costs_for(layout, table); };
  return plan::generate(
      kind, shape_of(kind, query),
      {.costs = costs, .limit = query.memory.value_or(std::numeric_limits<double>::infinity())});
}

/// How many compute instructions it takes to outlast a message, so that no RECV comes too late and
/// a latency costs itself and no more.
int receive_ahead(const Program& program, const plan::Costs& costs) {
  double shortest = std::numeric_limits<double>::infinity();
  for (int stage = 0; stage < program.stages; ++stage) {
    const plan::StageCosts& of = costs.stages[stage];
    shortest = std::min({shortest, of.forward, of.input, of.weight});
  }
  double latency = 0;
  for (const plan::LinkCosts& link : costs.edges) latency = std::max(latency, link.latency);
  if (latency <= shortest) return 1;
  std::size_t all = 1;
  for (const auto& list : program.lists) all = std::max(all, list.size());
  return static_cast<int>(std::min(std::ceil(latency / shortest), static_cast<double>(all)));
}

ScheduleRun run_one(std::string_view kind, const ScheduleQuery& query, const CostTable& table) {
  const std::string path(kind);
  const bool named = std::ranges::count(plan::schedule_names(), kind) == 1;
  ScheduleRun run;
  run.name = path;
  run.program = !named && std::filesystem::exists(path) ? read_program_for(path, query)
                                                        : generate_for(kind, query, table);
  run.violations = violations_of(run.program, run.final);
  if (!run.violations.empty()) return run;

  const plan::Costs costs = costs_for(run.final, table);
  const int ahead = receive_ahead(run.final, costs);
  if (ahead > 1) run.violations = violations_of(run.program, run.final, {.receive_ahead = ahead});
  run.timeline.trace = plan::simulate(run.final, costs);
  run.timeline.trace.name = run.name;
  run.timeline.summary = plan::summarise(run.final, run.timeline.trace);
  return run;
}

/// Empty if the run fits the limit, else a sentence.
std::string excess(const ScheduleRun& run, std::optional<double> memory) {
  if (!memory || !run.violations.empty()) return "";
  const auto& devices = run.timeline.summary.devices;
  const auto most = std::ranges::max_element(devices, {}, &plan::DeviceSummary::peak_activations);
  if (most->peak_activations <= *memory + 1e-9) return "";
  return fmt::format("{} keeps {:.6g} microbatches alive on device {}, more than --memory {:.6g}",
                     run.name, most->peak_activations, most - devices.begin(), *memory);
}

}  // namespace

std::vector<std::string> violations_of(const Program& program, Program& final,
                                       const schedule::LowerOptions& options) {
  const auto sentences = [](const Program& of, schedule::Level level) {
    std::vector<std::string> texts;
    for (const auto& violation : schedule::verify(of, level)) {
      texts.push_back(schedule::to_string(of, violation));
    }
    return texts;
  };
  const bool compute_only = schedule::is_compute_only(program);
  if (compute_only) {
    auto found = sentences(program, schedule::Level::Compute);
    if (!found.empty()) return found;
  }
  final = compute_only ? schedule::lower(program, options) : program;
  return sentences(final, schedule::Level::Final);
}

std::vector<ScheduleRun> run_schedules(const ScheduleQuery& query) {
  require(!query.memory || *query.memory > 0, "--memory ", query.memory.value_or(0),
          " must be more than 0 microbatches");
  if (query.memory && *query.memory < 1) {
    throw DoesNotFit(fmt::format(
        "--memory {:.6g} holds no whole microbatch, and every schedule keeps one alive; give 1 or "
        "more",
        *query.memory));
  }
  const CostTable costs = read_costs(query.costs);
  std::vector<ScheduleRun> runs;
  std::string refused;
  const bool one_file = std::filesystem::exists(query.kinds);
  for (std::string_view kind : split(query.kinds, one_file ? '\0' : ',')) {
    ScheduleRun run = run_one(kind, query, costs);
    const std::string reason = excess(run, query.memory);
    if (reason.empty()) {
      runs.push_back(std::move(run));
    } else {
      refused += (refused.empty() ? "" : "; ") + reason;
    }
  }
  if (runs.empty()) throw DoesNotFit(refused + "; raise --memory, or try auto, v-half or v-min");
  if (!refused.empty()) complain("cleave: left out: {}\n", refused);
  return runs;
}

}  // namespace cleave::app
