#include <algorithm>
#include <cstdint>
#include <string>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"
#include "cleave/schedule/generators/generator.h"
#include "cleave/schedule/graph.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

// clang-format off
std::vector<Schedule> built_in() {
  return {
      {.name = "gpipe", .generate = gpipe, .any_graph = true, .keeps_all = true, .rank = 9},
      {.name = "1f1b", .generate = one_f_one_b, .any_graph = true, .starts_early = true, .rank = 0,
       .on_clusters = true},
      {.name = "interleaved", .generate = interleaved, .chunks = 2, .most_chunks = kMostChunks,
       .rank = 2, .searched_chunks = 4, .on_clusters = true},
      {.name = "interleaved-lean", .generate = interleaved_lean, .chunks = 2,
       .most_chunks = kMostChunks, .whole_rounds = true, .rank = 11},
      {.name = "looped-bfs", .generate = looped_bfs, .chunks = 2, .most_chunks = kMostChunks,
       .keeps_all = true, .rank = 10, .searched_chunks = 4},
      {.name = "zb-h1", .generate = zb_h1, .any_graph = true, .splits_backward = true, .rank = 1,
       .on_clusters = true},
      {.name = "zb-h2", .generate = zb_h2, .splits_backward = true, .rank = 7,
       .on_clusters = true},
      {.name = "zbv", .generate = zbv, .chunks = 2, .most_chunks = 2, .fold = Fold::V,
       .splits_backward = true, .whole_rounds = true, .rank = 3, .on_clusters = true},
      {.name = "v-half", .generate = v_half, .chunks = 2, .most_chunks = 2, .fold = Fold::V,
       .splits_backward = true, .whole_rounds = true, .rank = 4},
      {.name = "v-min", .generate = v_min, .chunks = 2, .most_chunks = 2, .fold = Fold::V,
       .splits_backward = true, .whole_rounds = true, .rank = 5},
      {.name = "dualpipev", .generate = dualpipev, .chunks = 2, .most_chunks = 2, .fold = Fold::V,
       .splits_backward = true, .whole_rounds = true, .rank = 8},
  };
}
// clang-format on

std::vector<Schedule>& table() {
  static std::vector<Schedule> rows = built_in();
  return rows;
}

bool takes(const Schedule& schedule, std::int64_t chunks) {
  const bool fixed = schedule.chunks == schedule.most_chunks;
  return fixed ? chunks == schedule.chunks : chunks >= 1 && chunks <= schedule.most_chunks;
}

/// "interleaved, interleaved-lean or looped-bfs"
std::string names_with_any_chunks() {
  std::vector<std::string_view> found;
  for (const Schedule& schedule : table())
    if (schedule.most_chunks > schedule.chunks) found.push_back(schedule.name);
  std::string names;
  for (const std::string_view& name : found) {
    const bool last = &name == &found.back();
    (names += names.empty() ? "" : last ? " or " : ", ") += name;
  }
  return names;
}

/// "gpipe, 1f1b, ": those that have a trait.
std::string names_with(bool Schedule::*trait) {
  std::string names;
  for (const Schedule& schedule : table())
    if (schedule.*trait) (names += schedule.name) += ", ";
  return names;
}

void check_graph(const Schedule& schedule, const PipelineShape& shape) {
  require(schedule.any_graph, "schedule ", schedule.name,
          " is made for a chain of stages, not for a graph; take ",
          names_with(&Schedule::any_graph), "or auto");
  for (const Edge& edge : shape.graph) {
    for (const int stage : {edge.from, edge.to})
      require(stage >= 0 && stage < shape.devices, "the edge ", edge.from, ">", edge.to,
              " names stage ", stage, ", but there are ", shape.devices, ", from 0 on");
    require(edge.from != edge.to, "the edge ", edge.from, ">", edge.to,
            " leads from a stage to itself");
  }
  require(longest_paths(shape.devices, shape.graph).has_value(),
          "the edges of the graph form a cycle; data must flow one way");
}

void check_replicas(const Schedule& schedule, const PipelineShape& shape) {
  require(schedule.any_graph, "schedule ", schedule.name,
          " is made for stages with one number of replicas; take ",
          names_with(&Schedule::any_graph), "or auto");
  require(std::ssize(shape.replicas) == shape.devices, shape.replicas.size(),
          " stages have a number of replicas, but there are ", shape.devices,
          " stages; give each of them one");
  const int most = std::ranges::max(shape.replicas);
  for (int stage = 0; stage < shape.devices; ++stage)
    require(shape.replicas[stage] >= 1 && most % shape.replicas[stage] == 0, "stage ", stage,
            " has ", shape.replicas[stage], " replicas, which does not divide the ", most,
            " of another; take a number that does");
}

/// Keeps every index and count of a program within 32 bits, and a mistyped size from filling the
/// memory.
constexpr std::int64_t kMostActions = 100'000'000;

void check_size(const Schedule& schedule, const PipelineShape& shape) {
  const std::int64_t rounds = schedule.whole_rounds ? std::int64_t{2} * shape.devices : 1;
  const std::int64_t made = std::max<std::int64_t>(shape.microbatches, rounds);
  const std::int64_t replicas = shape.replicas.empty() ? 1 : std::ranges::max(shape.replicas);
  require(shape.devices <= kMostActions / shape.chunks / made / std::max<std::int64_t>(1, replicas),
          shape.devices, " devices x ", shape.chunks, " chunks x ", made, " microbatches",
          replicas > 1 ? cleave::detail::concat(" x ", replicas, " replicas") : "",
          made == shape.microbatches ? ""
                                     : cleave::detail::concat(", of which ", schedule.name,
                                                              " is made however few there are,"),
          " are more than the ", kMostActions, " forwards that a program may have");
}

void check(const Schedule& schedule, const PipelineShape& shape) {
  require(shape.devices >= 1, "a pipeline needs at least one device, got ", shape.devices);
  require(shape.microbatches >= 1, "a step needs at least one microbatch, got ",
          shape.microbatches);
  const bool fixed = schedule.chunks == schedule.most_chunks;
  require(!fixed || shape.chunks == schedule.chunks, "schedule ", schedule.name, " has ",
          schedule.chunks, schedule.chunks == 1 ? " stage" : " stages", " on each device, not ",
          shape.chunks, "; leave chunks out or choose ", names_with_any_chunks());
  require(shape.early >= 0, "a device cannot begin ", shape.early, " microbatches early");
  require(shape.early == 0 || schedule.starts_early, "schedule ", schedule.name,
          " begins no microbatches early, and parallel.early is ", shape.early, "; choose ",
          names_with(&Schedule::starts_early), "or leave it out");
  require(takes(schedule, shape.chunks), "chunks must be between 1 and ", schedule.most_chunks,
          ", got ", shape.chunks);
  check_size(schedule, shape);
}

}  // namespace

const std::vector<Schedule>& schedules() {
  return table();
}

void add_schedule(const Schedule& schedule) {
  require(std::ranges::find(table(), schedule.name, &Schedule::name) == table().end(),
          "there is a schedule '", schedule.name, "' already; give yours another name");
  table().push_back(schedule);
}

const Schedule& schedule_named(std::string_view name) {
  const auto found = std::ranges::find(table(), name, &Schedule::name);
  if (found != table().end()) return *found;
  throw UserError(
      detail::concat("unknown schedule '", name, "'", known_are(name, schedule_names())));
}

const Schedule& plainest_schedule(std::int64_t chunks) {
  const std::int64_t wanted = std::clamp<std::int64_t>(chunks, 1, kMostChunks);
  const Schedule* best = nullptr;
  for (const Schedule& schedule : table())
    if (takes(schedule, wanted) && (best == nullptr || schedule.rank < best->rank))
      best = &schedule;
  CLEAVE_CHECK(best != nullptr, "no schedule takes ", wanted, " stages on each device");
  return *best;
}

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const Schedule& schedule : table()) names.push_back(schedule.name);
  return names;
}

namespace {

/// Where stages have different numbers of replicas, what suits a chain may keep a device waiting
/// for itself: then all may run further ahead. At the latest it is sound as gpipe is.
Program sound_draft(const Schedule& schedule, PipelineShape shape) {
  const int most = std::ranges::max(shape.replicas);
  for (const int end = shape.further_ahead + most * shape.microbatches;; ++shape.further_ahead) {
    Program program = schedule.generate(shape);
    if (shape.further_ahead >= end || verify_compute(program).empty()) return program;
  }
}

}  // namespace

Program generate(std::string_view name, const PipelineShape& shape) {
  const Schedule& schedule = schedule_named(name);
  PipelineShape resolved = shape;
  if (resolved.chunks == 0) resolved.chunks = schedule.chunks;
  check(schedule, resolved);
  if (!shape.graph.empty()) check_graph(schedule, resolved);
  if (!shape.replicas.empty()) check_replicas(schedule, resolved);
  for (const auto& [stage, microbatch, replica] : shape.absent) {
    require(stage >= 0 && stage < resolved.devices * resolved.chunks && microbatch >= 0 &&
                microbatch < shape.microbatches,
            "stage ", stage, " cannot be absent from microbatch ", microbatch, "; there are ",
            resolved.devices * resolved.chunks, " stages and ", shape.microbatches,
            " microbatches, from 0 on");
    require(replica == Absence::kEveryReplica, "stage ", stage, " is absent from microbatch ",
            microbatch, " of replica ", replica,
            ", and schedules are made for all replicas at once");
  }
  Program program =
      shape.replicas.empty() ? schedule.generate(resolved) : sound_draft(schedule, resolved);
  program.absent = shape.absent;
  if (!shape.frozen.empty()) freeze(program, shape.frozen);
  if (!program.gradients.empty() || !program.absent.empty()) leave_out_undemanded(program);
  if (program.absent.empty()) return program;
  const std::vector<Violation> faults = verify_compute(program);
  require(faults.empty(), "with these absences ", faults.empty() ? "" : faults[0].reason,
          "; let it be absent as well");
  return program;
}

}  // namespace cleave::schedule
