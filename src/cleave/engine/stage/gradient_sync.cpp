#include "cleave/engine/stage/gradient_sync.h"

#include <algorithm>
#include <numeric>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/ops/elementwise.h"

namespace cleave::engine {
namespace {

/// Sums over replicas go through at most this much memory per other replica.
constexpr std::int64_t kMostWorkspace = std::int64_t{4} << 20;

/// The gradient of a tied weight passes through a workspace of at most this many bytes.
constexpr std::int64_t kMostTieWorkspace = std::int64_t{1} << 20;

std::int64_t workspace_for(std::int64_t bytes, int replicas) {
  const auto single = static_cast<std::int64_t>(
      comm::single_round_workspace(static_cast<std::size_t>(bytes), replicas));
  return aligned(std::min(single, kMostWorkspace * (replicas - 1)));
}

/// A single round takes the largest share of it from every other replica.
std::int64_t run_workspace(const plan::ShareRun& run, int replicas) {
  std::int64_t most = 0;
  for (int r = 0; r < replicas; ++r) most = std::max(most, run.borders[r + 1] - run.borders[r]);
  return workspace_for(most * replicas * size_of(DType::F32), replicas);
}

}  // namespace

GradientSync::GradientSync(Parts parts)
    : parts_(std::move(parts)), adder_(*parts_.compute, DType::F32) {
  const schedule::Program& program = *parts_.program;
  replicas_.resize(program.stages);
  std::vector<std::size_t> at_once(program.stages);  // reductions of each stage
  for (std::size_t s = 0; s < parts_.stages.size(); ++s) {
    if (parts_.stages[s] == nullptr) continue;
    for (const plan::SegmentState& segment : parts_.stages[s]->parameters().layout().segments)
      at_once[s] += std::max<std::size_t>(1, segment.runs.size());
  }
  reductions_.reserve(std::reduce(at_once.begin(), at_once.end()));
  borders_.reserve(static_cast<std::size_t>(program.replicas) + 1);
  ties_.resize(program.ties.size());
  for (int s = 0; s < program.stages; ++s) {
    if (parts_.stages[s] == nullptr) continue;
    replicas_[s] = parts_.peers->group(holders_of(program, s));
    replicas_[s]->make_room(at_once[s]);
  }
  const schedule::Topology topology(program);
  for (std::size_t t = 0; t < program.ties.size(); ++t) {
    for (int r = 0; r < program.replicas; r += std::max(1, topology.replicas[parts_.device])) {
      // The later use first: TIE adds head + embedding.
      const std::array<int, 2> pair = {program.placement[program.ties[t].second][r],
                                       program.placement[program.ties[t].first][r]};
      const bool holds = parts_.stages[program.ties[t].first] != nullptr ||
                         parts_.stages[program.ties[t].second] != nullptr;
      const bool member = std::ranges::find(pair, parts_.device) != pair.end();
      if (pair[0] == pair[1] || !holds || !member) continue;
      ties_[t] = parts_.peers->group(pair);
      ties_[t]->make_room(1);
    }
  }
}

std::vector<comm::Communicator*> GradientSync::replicas() const {
  std::vector<comm::Communicator*> groups;
  for (const auto& group : replicas_) groups.push_back(group.get());
  return groups;
}

void GradientSync::begin_step() {
  reductions_.clear();
  in_flight_ = 0;
}

void GradientSync::merge(StageId stage, SegmentId segment, std::span<const SumMerge> merges) {
  const StageParameters& parameters = parts_.stages[stage]->parameters();
  for (const SumMerge& merge : merges) {
    const View into = parameters.sums(segment, merge.into);
    const View from = parameters.sums(segment, merge.from);
    if (merge.clears_into) ops::fill(*parts_.compute, 0, into);
    if (merge.clears_from) ops::fill(*parts_.compute, 0, from);
    if (merge.into != merge.from) ops::add(*parts_.compute, into, from, into);
  }
}

void GradientSync::clear(StageId stage, SegmentId segment) {
  ops::fill(*parts_.compute, 0, parts_.stages[stage]->parameters().sums(segment, 0));
}

void GradientSync::reduce(StageId stage, SegmentId segment, Room room) {
  if (replicas_[stage]->size() == 1) return;
  const StageParameters& parameters = parts_.stages[stage]->parameters();
  if (parameters.layout().segments[segment].elements == 0) return;  // nothing here is trained
  for (const plan::ShareRun& run : parameters.layout().segments[segment].runs)
    if (run.trained) reduce_run(stage, segment, run, room);
  if (parameters.layout().shares_state()) return;
  const View sum = parameters.sums(segment, 0);
  ++in_flight_;
  reductions_.push_back({.pending = replicas_[stage]->all_reduce(
                             {.values = {sum.bytes(), static_cast<std::size_t>(sum.byte_count())},
                              .workspace = room.workspace,
                              .adder = adder_,
                              .on_host = {room.on_host}}),
                         .stage = stage,
                         .segment = segment});
}

void GradientSync::reduce_run(StageId stage, SegmentId segment, const plan::ShareRun& run,
                              Room& room) {
  const View sum = parts_.stages[stage]
                       ->parameters()
                       .sums(segment, 0)
                       .slice(0, run.begin(), run.end() - run.begin());
  borders_.clear();
  for (const std::int64_t border : run.borders)
    borders_.push_back(static_cast<std::size_t>((border - run.begin()) * size_of(DType::F32)));
  const auto bytes = static_cast<std::size_t>(run_workspace(run, replicas_[stage]->size()));
  const std::size_t on_host = room.on_host.empty() ? 0 : comm::reduce_scatter_host_bytes(bytes);
  ++in_flight_;
  reductions_.push_back({.pending = replicas_[stage]->reduce_scatter(
                             {.values = {sum.bytes(), static_cast<std::size_t>(sum.byte_count())},
                              .workspace = room.workspace.first(bytes),
                              .adder = adder_,
                              .on_host = {room.on_host.first(on_host)}},
                             borders_),
                         .stage = stage,
                         .segment = segment,
                         .run = &run});
  room = {room.workspace.subspan(bytes), room.on_host.subspan(on_host)};
}

void GradientSync::arrived(Reduction& reduction) {
  --in_flight_;
  const StageParameters& parameters = parts_.stages[reduction.stage]->parameters();
  if (parameters.keeps_shares_apart()) parameters.keep_share(reduction.segment, *reduction.run);
}

void GradientSync::look() {
  for (Reduction& reduction : reductions_) {
    if (reduction.pending.in_flight() && reduction.pending.done()) arrived(reduction);
  }
}

void GradientSync::finish(StageId stage, SegmentId segment) {
  for (Reduction& reduction : reductions_) {
    if (reduction.stage != stage || reduction.segment != segment) continue;
    if (!reduction.pending.in_flight()) continue;
    reduction.pending.wait();
    arrived(reduction);
  }
}

void GradientSync::tie(int index) {
  const schedule::Tie& tie = parts_.program->ties[index];
  const std::string& name = parts_.tie_names[index];
  View owner;
  View user;
  const auto find = [&](int stage, auto&& matches) {
    if (parts_.stages[stage] == nullptr) return View();
    const auto parameters = parts_.stages[stage]->parameters().all();
    return std::ranges::find_if(parameters, matches)->gradient;
  };
  owner = find(tie.first, [&](const ParameterState& p) { return p.spec->name == name; });
  user = find(tie.second, [&](const ParameterState& p) { return p.spec->tied_to == name; });
  if ((owner ? owner : user).elements() == 0) return;  // another replica's
  if (owner && user) return ops::add(*parts_.compute, user, owner, owner);

  // No pass runs meanwhile: the kernels' scratch is free.
  const View gradient = owner ? owner : user;
  const std::size_t bytes = static_cast<std::size_t>(gradient.byte_count());
  const auto workspace = static_cast<std::size_t>(tie_workspace(gradient.byte_count()));
  ties_[index]
      ->all_reduce({.values = {gradient.bytes(), bytes},
                    .workspace = parts_.compute->scratch().first(workspace),
                    .adder = adder_,
                    .on_host = {parts_.on_host}})
      .wait();
}

std::int64_t GradientSync::tie_workspace(std::int64_t bytes) {
  const auto single = comm::single_round_workspace(static_cast<std::size_t>(bytes), 2);
  return aligned(std::min(static_cast<std::int64_t>(single), kMostTieWorkspace));
}

std::int64_t GradientSync::tie_host_bytes(std::int64_t bytes) {
  return aligned(static_cast<std::int64_t>(comm::all_reduce_host_bytes(
      static_cast<std::size_t>(bytes), static_cast<std::size_t>(tie_workspace(bytes)))));
}

std::int64_t GradientSync::tied_bytes(const plan::StateLayout& user, const std::string& name,
                                      int rank) {
  for (const plan::SegmentState& segment : user.segments) {
    for (const plan::ParameterPlace& place : segment.parameters) {
      if (place.spec->tied_to != name) continue;
      std::int64_t begin = place.at;
      std::int64_t end = place.at + place.spec->elements();
      for (const plan::ShareRun& run : segment.runs) {
        if (run.begin() != place.at) continue;
        begin = std::clamp(run.borders[rank], begin, end);
        end = std::clamp(run.borders[rank + 1], begin, end);
      }
      return (end - begin) * size_of(DType::F32);
    }
  }
  return 0;
}

std::int64_t GradientSync::workspace_bytes(const plan::SegmentState& segment, int replicas) {
  if (replicas < 2 || segment.elements == 0) return 0;
  if (segment.runs.empty()) return workspace_for(segment.gradient_bytes(), replicas);
  std::int64_t bytes = 0;
  for (const plan::ShareRun& run : segment.runs)
    if (run.trained) bytes += run_workspace(run, replicas);
  return bytes;
}

std::int64_t GradientSync::host_bytes(const plan::SegmentState& segment, int replicas) {
  const auto workspace = static_cast<std::size_t>(workspace_bytes(segment, replicas));
  if (workspace == 0) return 0;
  const auto values = static_cast<std::size_t>(segment.gradient_bytes());
  return static_cast<std::int64_t>(segment.runs.empty()
                                       ? comm::all_reduce_host_bytes(values, workspace)
                                       : comm::reduce_scatter_host_bytes(workspace));
}

}  // namespace cleave::engine
