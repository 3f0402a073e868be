#include "cleave/engine/compile/compile.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <ranges>

#include "cleave/base/check.h"
#include "cleave/engine/compile/accelerated.h"
#include "cleave/engine/compile/lowering.h"
#include "cleave/engine/compile/order_search.h"
#include "cleave/engine/compile/placement.h"
#include "cleave/engine/compile/step_stages.h"
#include "cleave/engine/compile/traffic.h"
#include "cleave/parallel/same_order.h"
#include "cleave/plan/tune/partition.h"
#include "cleave/schedule/forward_only.h"
#include "cleave/schedule/graph.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/program_file.h"
#include "cleave/schedule/verifier.h"
#include "cleave/shard/graph_share.h"
#include "cleave/spec/trainable.h"

namespace cleave::engine {
namespace {

/// Microbatches of a replica in one evaluating program: enough to keep a short pipeline busy.
constexpr int kEvaluatedAtOnce = 4;

/// Whether a segment runs once per step.
bool runs_per_step(const SegmentSpec& segment) {
  return std::ranges::any_of(segment.layers,
                             [](const LayerSpec& layer) { return !layer.collected.empty(); });
}

/// Segments per stage. The user counts blocks; what comes before the first of them belongs to the
/// first stage, what comes after the last one to the last stage.
std::vector<std::int64_t> segments_per_stage(const Graph& model, const Layout& layout, int stages) {
  const std::int64_t blocks = block_count(model);
  const std::int64_t segments = std::ssize(model.segments);
  if (layout.placement != Placement::Even) return placed_segments(model, layout, stages);
  if (layout.partition.empty()) {
    require(stages <= segments, stages, " stages need at least ", stages - (segments - blocks),
            " layers, and the model has ", blocks, "; use fewer pipeline devices or chunks");
    std::vector<double> costs;
    for (const SegmentSpec& segment : model.segments)
      costs.push_back(static_cast<double>(flops(segment)));
    return plan::balance(costs, stages);
  }
  const std::int64_t sum =
      std::accumulate(layout.partition.begin(), layout.partition.end(), std::int64_t{0});
  require(static_cast<int>(layout.partition.size()) == stages, "parallel.partition has ",
          layout.partition.size(), " entries, and the schedule has ", stages,
          " stages; give one number per stage");
  require(sum == blocks, "parallel.partition adds up to ", sum, " layers, and the model has ",
          blocks);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(stages), 0);
  std::size_t stage = 0;
  std::int64_t placed = 0;  // blocks in this stage
  std::int64_t left = blocks;
  for (const SegmentSpec& segment : model.segments) {
    if (segment.block) {
      while (placed == layout.partition[stage]) {
        ++stage;
        placed = 0;
      }
      ++placed;
      --left;
    } else if (left == 0) {
      stage = sizes.size() - 1;
    }
    ++sizes[stage];
  }
  require(std::ranges::all_of(sizes, [](std::int64_t size) { return size > 0; }),
          "parallel.partition leaves a stage empty; give every stage but the first and the last a "
          "layer");
  return sizes;
}

/// One message takes y to a stage; the gradients of all that read it there come back in one.
void set_edges(CompiledStep& step) {
  const Wiring wiring = wiring_of(step);
  const Graph& share = step.shares[0];
  step.program.edges = wiring.edges();
  step.program.reads = wiring.reads(share);
  for (const Wire& wire : wiring.wires()) {
    if (wire.edge < 0) continue;
    const std::int64_t bytes = share.segments[wire.from].layers.back().y.bytes();
    step.program.edges[wire.edge].forward_bytes = bytes;
    step.program.edges[wire.edge].backward_bytes = bytes * std::ssize(wire.readers);
  }
}

/// Tensor shards would cut what an update needs as one.
void check_whole_updates(const Graph& model, const CompileOptions& options, int shards) {
  if (shards == 1 || !options.optimizer->whole) return;
  for (const SegmentSpec& segment : model.segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        require(!parameter.whole_pieces, "train.optimizer ", options.optimizer->name,
                " updates whole matrices, and ", shards, " tensor shards cut ", parameter.name,
                "; use parallel.tensor 1 with numerics.tensor_shards 1, or another optimizer");
      }
    }
  }
}

/// What each device at a place has of the model.
std::vector<Graph> shares_of(const Graph& model, const CompileOptions& options) {
  const int devices = options.layout.tensor;
  const int shards = options.tensor_shards == 0 ? devices : options.tensor_shards;
  require(std::has_single_bit(static_cast<unsigned>(shards)) || shards == devices,
          "numerics.tensor_shards ", shards,
          " must be a power of two, or equal to parallel.tensor");
  require(shards % devices == 0, "parallel.tensor ", devices,
          " does not divide numerics.tensor_shards ", shards);
  check_whole_updates(model, options, shards);
  if (shards == 1) return {model};
  std::vector<Graph> shares;
  for (int number = 0; number < devices; ++number) {
    shares.push_back(shard::share_of(model,
                                     {.shards = shards,
                                      .devices = devices,
                                      .rank = number,
                                      .sequence_parallel = options.layout.sequence_parallel},
                                     options.kinds.traits()));
    give_slots(shares.back().segments, *options.optimizer, options.hyper);
  }
  return shares;
}

/// Weights with a second use, in the same stage or in a later one.
void set_ties(CompiledStep& step) {
  std::map<std::string, int> owners;
  for (int s = 0; s < step.program.stages; ++s) {
    for (const SegmentSpec& segment : segments_of(step, s, 0)) {
      for (const LayerSpec& layer : segment.layers) {
        for (const ParameterSpec& parameter : layer.parameters) {
          owners.emplace(parameter.name, s);
          if (parameter.tied_to.empty()) continue;
          if (!parameter.trainable) continue;  // neither has a gradient
          step.program.ties.push_back({owners.at(parameter.tied_to), s, parameter.elements() * 4});
          step.tie_names.push_back(parameter.tied_to);
        }
      }
    }
  }
}

/// A gradient is made where somebody wants it, which follows from what is trained. A stage runs I
/// through its own layers even if no gradient leaves it.
void leave_out_frozen(CompiledStep& step) {
  using schedule::GradientKind;
  const std::vector<bool> wants = wants_gradients(step.model);
  const Wiring wiring = wiring_of(step);
  for (const Wire& wire : wiring.wires())
    if (wire.edge >= 0) step.program.edges[wire.edge].backward = wants[wire.from];
  std::vector<GradientKind> kinds(step.program.stages, GradientKind::None);
  for (std::size_t s = 0; s < wants.size(); ++s) {
    GradientKind& kind = kinds[wiring.stage_of(static_cast<int>(s))];
    if (wants[s] && kind == GradientKind::None) kind = GradientKind::InputOnly;
    if (wants[s] && trains(step.model.segments[s])) kind = GradientKind::Full;
  }
  const auto count = std::ranges::count(kinds, GradientKind::Full);
  if (count == 0 || count == step.program.stages) return;
  step.program.gradients = std::move(kinds);
  schedule::leave_out_undemanded(step.program);
}

/// There is nothing to recompute for where nothing learns.
void keep_frozen(CompiledStep& step) {
  const std::vector<bool> wants = wants_gradients(step.model);
  std::size_t segment = 0;
  for (auto& stage : step.keep) {
    for (plan::Keep& kept : stage)
      if (!wants[segment++]) kept = plan::Keep::Everything;
  }
}

ShardFold fold_of(const CompileOptions& options) {
  const int shards = options.data_shards == 0 ? options.layout.data : options.data_shards;
  const int replicas = options.layout.data;
  require(std::has_single_bit(static_cast<unsigned>(shards)) || shards == replicas,
          "numerics.data_shards ", shards, " must be a power of two, or equal to parallel.data");
  require(shards % replicas == 0, "parallel.data ", replicas,
          " does not divide numerics.data_shards ", shards);
  const ShardFold fold{options.microbatches, shards / replicas};
  require(options.microbatches % fold.shards == 0, "the ", options.microbatches,
          " microbatches of a replica cannot be dealt out to its ", fold.shards,
          " data shards; make train.batch a multiple of train.microbatch x numerics.data_shards (",
          shards, ")");
  return fold;
}

/// The smallest of the devices at each place.
std::vector<std::int64_t> budgets_of_places(const CompiledStep& step,
                                            std::span<const std::int64_t> of_devices) {
  std::vector<std::int64_t> budgets;
  for (int place = 0; place < step.mesh.places() && !of_devices.empty(); ++place) {
    const std::vector<int> devices = step.mesh.group_at(place);
    budgets.push_back(std::ranges::min(
        devices | std::views::transform([&](int device) { return of_devices[device]; })));
  }
  return budgets;
}

/// A segment that runs once per step ends its stage, and reads all samples of it.
void set_collecting(CompiledStep& step, const CompileOptions& options) {
  for (int s = 0; s < step.program.stages; ++s) {
    const std::vector<SegmentSpec>& segments = step.stages[s];
    for (std::size_t k = 0; k < segments.size(); ++k) {
      if (!runs_per_step(segments[k])) continue;
      const LayerSpec& layer = segments[k].layers.front();
      require(segments[k].layers.size() == 1 && k + 1 == segments.size(), "segment ",
              segments[k].name, " runs once per step, so it is one layer and ends its stage");
      const std::int64_t rows = layer.x.shape[0] * options.microbatches * options.layout.data;
      require(layer.collected[0].shape[0] == rows, "the loss ", layer.name, " is over ",
              layer.collected[0].shape[0], " samples, and a step has ", rows);
      step.program.collecting.push_back(s);
    }
  }
}

void check_budgets(const CompiledStep& step) {
  for (int device = 0; device < std::ssize(step.outside_budgets); ++device) {
    const std::int64_t planned = step.outside_on(device);
    const std::int64_t budget = step.outside_budgets[device];
    if (planned <= budget) continue;
    throw DoesNotFit(detail::concat("device ", device, " moves ", format_bytes(planned), " (",
                                    planned, " bytes) out and has room for ", format_bytes(budget),
                                    " (", budget,
                                    " bytes); raise devices.host_memory, or make the "
                                    "microbatch or the model smaller"));
  }
  for (int device = 0; device < std::ssize(step.budgets); ++device) {
    const std::int64_t planned = step.planned_on(device);
    const std::int64_t budget = step.budgets[device];
    if (planned <= budget) continue;
    throw DoesNotFit(detail::concat("device ", device, " needs ", format_bytes(planned), " (",
                                    planned, " bytes) and has ", format_bytes(budget), " (", budget,
                                    " bytes); raise devices.memory, use more devices, or make the "
                                    "microbatch or the model smaller"));
  }
}

/// As many microbatches at once as are worth it and fit into the memory of a training step.
void plan_evaluation(CompiledStep& step, const schedule::Program& one_replica,
                     const schedule::LowerOptions& options) {
  bool fits = false;
  // What runs once per step does so over as many samples as it has learned from.
  const int most = one_replica.collecting.empty()
                       ? std::min(one_replica.microbatches, kEvaluatedAtOnce)
                       : one_replica.microbatches;
  const int fewest = one_replica.collecting.empty() ? 1 : most;
  for (int at_once = most; at_once >= fewest && !fits; --at_once) {
    step.evaluation = schedule::forward_only(one_replica, at_once, options);
    plan::plan_evaluation_memory(step.evaluation, step.memory, step.program);
    fits = std::ranges::equal(plan::peak_bytes(step.evaluation), step.planned_bytes,
                              std::less_equal());
  }
  CLEAVE_CHECK(fits, "evaluating one microbatch needs more memory than training");
}

/// Stages, edges and ties; the program is `order` still: compute only, for one replica.
CompiledStep lay_out(const Graph& model, const CompileOptions& options, schedule::Program order) {
  const Layout& layout = options.layout;
  CompiledStep step;
  step.model = model;
  give_slots(step.model.segments, *options.optimizer, options.hyper);
  step.program = std::move(order);
  auto next = step.model.segments.begin();
  step.program.segments.clear();
  for (std::int64_t size : segments_per_stage(model, layout, step.program.stages)) {
    step.stages.emplace_back(next, next + size);
    step.program.segments.push_back(static_cast<int>(size));
    next += size;
  }
  step.mesh = layout.mesh();
  step.shares = shares_of(step.model, options);
  if (options.purpose == Purpose::Train) std::ranges::for_each(step.shares, leave_out_unwanted);
  set_edges(step);
  if (options.purpose == Purpose::Train) leave_out_frozen(step);
  parallel::check_same_order(step.shares);
  set_ties(step);
  set_collecting(step, options);
  step.fold = fold_of(options);
  require(
      layout.zero == 0 || layout.data > 1, "parallel.zero ", layout.zero,
      " shares memory among replicas, and parallel.data is 1; set parallel.data to 2 or more, or "
      "parallel.zero to 0");
  check_weights_of_w(model, layout, step.program);
  step.zero = layout.zero;
  step.arithmetic = options.arithmetic;
  step.device_kinds = options.device_kinds;
  step.spill = options.spill;
  step.keep = keep_of(step.stages, layout.recompute);
  if (options.purpose == Purpose::Train) keep_frozen(step);
  step.tensor_names = tensor_names(model.segments);
  for (const Graph& share : step.shares)
    std::ranges::move(owned_pieces(share.segments), std::back_inserter(step.pieces));
  std::ranges::sort(step.pieces);
  return step;
}

/// Whether the plan fits is not looked at.
CompiledStep compile_order(const Graph& model, const CompileOptions& options,
                           schedule::Program order) {
  const Layout& layout = options.layout;
  CompiledStep step = lay_out(model, options, std::move(order));
  const schedule::Program one_replica = step.program;
  const schedule::LowerOptions lowering = lowering_of(step.keep, layout);
  const bool trains = options.purpose == Purpose::Train;
  step.program = trains ? schedule::lower(std::move(step.program), lowering)
                        : schedule::forward_only(one_replica, options.microbatches, lowering);

  check_accelerated(step, options);
  const Stages stages = plan_stages(step, options);
  plan::plan_memory(step.program, step.memory);
  step.planned_bytes = plan::peak_bytes(step.program);
  step.outside_bytes = plan::outside_bytes(step.program);
  for (int device = 0; device < step.devices(); ++device) {
    std::vector<const Stage*> own;
    for (const auto& numbers : stages) own.push_back(numbers[step.mesh.number_of(device)].get());
    step.traffic.push_back(planned_traffic({.program = step.program,
                                            .stages = own,
                                            .tie_names = step.tie_names,
                                            .fold = step.fold,
                                            .pieces = std::ssize(step.pieces),
                                            .place = step.place_of(device),
                                            .device = device,
                                            .devices = step.devices()}));
  }
  if (trains) {
    plan_evaluation(step, one_replica, lowering);
  } else {
    step.evaluation = step.program;
  }
  step.budgets = options.budgets;
  step.program.budgets = budgets_of_places(step, step.budgets);
  step.outside_budgets = options.outside_budgets;
  step.program.outside_budgets = budgets_of_places(step, step.outside_budgets);
  return step;
}

CompiledStep compile_emulated_order(const Graph& model, const CompileOptions& options,
                                    schedule::Program order) {
  CompiledStep step = lay_out(model, options, std::move(order));
  step.program = schedule::lower(std::move(step.program), {.replicas = options.layout.data});
  step.memory.resize(step.program.stages);
  step.kernel_scratch.assign(step.program.devices, 0);
  plan::plan_memory(step.program, step.memory);
  step.planned_bytes = plan::peak_bytes(step.program);
  step.outside_bytes = plan::outside_bytes(step.program);
  for (int device = 0; device < step.devices(); ++device)
    step.traffic.push_back(
        emulated_traffic(step.program, step.place_of(device), device, step.devices()));
  step.budgets = options.budgets;
  step.program.budgets = budgets_of_places(step, step.budgets);
  return step;
}

void check_sound(const schedule::Program& program, schedule::Level level) {
  const auto violations = schedule::verify(program, level);
  CLEAVE_CHECK(violations.empty(), "the program is not sound: ", to_string(program, violations[0]));
}

/// What the schedule is made for. It hears of the model's edges where stages form no chain.
schedule::PipelineShape shape_of(const Graph& model, const CompileOptions& options) {
  const Layout& layout = options.layout;
  schedule::PipelineShape shape{
      .devices = layout.pipeline, .microbatches = options.microbatches, .chunks = layout.chunks};
  const bool named = layout.schedule != "auto" && !schedule::names_file(layout.schedule);
  if (layout.schedule == "auto") shape.chunks = std::max(1, layout.chunks);
  const int chunks = named && shape.chunks == 0 ? schedule::schedule_named(layout.schedule).chunks
                                                : std::max(1, shape.chunks);
  if (Wiring(model, {std::ssize(model.segments)}).reads(model).empty()) return shape;
  const Wiring wiring(model, segments_per_stage(model, layout, layout.pipeline * chunks));
  if (!wiring.is_chain_of_stages()) shape.graph = wiring.edges();
  return shape;
}

/// The program that the layout's schedule comes to.
Ordered scheduled(const Graph& model, const CompileOptions& options, const CompileOrder& compiled) {
  check(model);
  const schedule::PipelineShape shape = shape_of(model, options);
  Ordered found;
  // Of orders that run every F before the first backward pass, one is as good as another.
  const bool per_step = std::ranges::any_of(model.segments, runs_per_step);
  const bool any_order = options.layout.schedule == "auto";
  if (any_order && !per_step) {
    found = find_order(options, shape, compiled);
  } else {
    found.order = schedule::order_of(any_order ? "gpipe" : options.layout.schedule, shape);
    found.step = compiled(found.order);
  }
  check_budgets(found.step);
  check_sound(found.step.program, options.purpose == Purpose::Train ? schedule::Level::Final
                                                                    : schedule::Level::Forward);
  return found;
}

/// Moves nothing out unless the plan would not fit.
CompiledStep compile_to_fit(const Graph& model, CompileOptions options) {
  options.layout.offload = schedule::Offload::Nothing;
  try {
    return compile(model, options);
  } catch (const DoesNotFit&) {
    options.layout.offload = schedule::Offload::Activations;
  }
  return compile(model, options);
}

}  // namespace

CompiledStep compile_emulated(const Graph& given, const CompileOptions& options) {
  Graph model = given;
  leave_out_unwanted(model);
  const CompileOrder sleeping = [&](schedule::Program order) {
    return compile_emulated_order(model, options, std::move(order));
  };
  if (options.budgets.empty()) return scheduled(model, options, sleeping).step;
  CompiledStep step = sleeping(scheduled(model, options, [&](schedule::Program order) {
                                 return compile_order(model, options, std::move(order));
                               }).order);
  check_sound(step.program, schedule::Level::Final);
  return step;
}

CompiledStep compile(const Graph& given, const CompileOptions& options) {
  if (!options.layout.offload) return compile_to_fit(given, options);
  Graph model = given;
  if (options.purpose == Purpose::Evaluate) {
    freeze(model.segments);
  } else {
    leave_out_unwanted(model);
  }
  CompiledStep step = scheduled(model, options, [&](schedule::Program order) {
                        return compile_order(model, options, std::move(order));
                      }).step;
  const auto in_evaluation = schedule::verify(step.evaluation, schedule::Level::Forward);
  CLEAVE_CHECK(in_evaluation.empty(),
               "the evaluation is not sound: ", to_string(step.evaluation, in_evaluation[0]));
  return step;
}

const std::string& CompiledStep::kind_of(int device) const {
  static const std::string cpu = "cpu";
  if (device_kinds.empty()) return cpu;
  return device_kinds.size() == 1 ? device_kinds[0] : device_kinds.at(device);
}

int CompiledStep::replica_of(int device) const {
  return schedule::Topology(program).replica[place_of(device)];
}

}  // namespace cleave::engine
