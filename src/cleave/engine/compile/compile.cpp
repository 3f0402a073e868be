#include "cleave/engine/compile/compile.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <ranges>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/engine/compile/accelerated.h"
#include "cleave/engine/compile/laid_out.h"
#include "cleave/engine/compile/lowering.h"
#include "cleave/engine/compile/module_shares.h"
#include "cleave/engine/compile/optional_stages.h"
#include "cleave/engine/compile/order_search.h"
#include "cleave/engine/compile/patterns.h"
#include "cleave/engine/compile/stage_sizes.h"
#include "cleave/engine/compile/step_stages.h"
#include "cleave/engine/compile/traffic.h"
#include "cleave/engine/compile/wires.h"
#include "cleave/schedule/forward_only.h"
#include "cleave/schedule/graph.h"
#include "cleave/schedule/passes.h"
#include "cleave/schedule/program_file.h"
#include "cleave/schedule/refine.h"
#include "cleave/schedule/verifier.h"

namespace cleave::engine {
namespace {

/// Microbatches of a replica in one evaluating program: enough to keep a short pipeline busy.
constexpr int kEvaluatedAtOnce = 4;

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

void check_budgets(const CompiledStep& step) {
  for (int device = 0; device < std::ssize(step.outside_budgets); ++device) {
    const std::int64_t planned = step.outside_on(device) + step.host_on(device);
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
  std::vector<plan::StageMemory> memory = step.memory;
  if (step.state_moves)  // It is outside when nothing is updated.
    for (plan::StageMemory& stage : memory) stage.optimizer = 0;
  // What runs once per step does so over as many samples as it has learned from.
  const int most = one_replica.collecting.empty()
                       ? std::min(one_replica.microbatches, kEvaluatedAtOnce)
                       : one_replica.microbatches;
  const int fewest = one_replica.collecting.empty() ? 1 : most;
  for (int at_once = most; at_once >= fewest && !fits; --at_once) {
    step.evaluation = schedule::forward_only(one_replica, at_once, options);
    plan::plan_evaluation_memory(step.evaluation, memory, step.program);
    fits = std::ranges::equal(plan::peak_bytes(step.evaluation), step.planned_bytes,
                              std::less_equal());
  }
  // Messages of more microbatches at once may take more of the host's memory than a step's do.
  const std::vector<std::int64_t> messages = plan::host_bytes(step.evaluation);
  for (std::size_t place = 0; place < messages.size(); ++place)
    step.host_bytes[place] = std::max(step.host_bytes[place], messages[place]);
  CLEAVE_CHECK(fits, "evaluating one microbatch needs more memory than training");
}

/// Whether the plan fits is not looked at.
CompiledStep compile_order(const Graph& model, const CompileOptions& options,
                           schedule::Program order) {
  const Layout& layout = options.layout;
  CompiledStep step = lay_out(model, options, std::move(order));
  const schedule::Program one_replica = step.program;
  schedule::LowerOptions lowering = lowering_of(step.keep, layout);
  lowering.through_host = places_through_host(step, options);
  lowering.moves_beside = options.moves_beside;
  const bool trains = options.purpose == Purpose::Train;
  step.has_gradients = options.purpose != Purpose::Hold;
  if (trains) leave_out_never_present(step, options);
  step.program = trains ? schedule::lower(std::move(step.program), lowering)
                        : schedule::forward_only(one_replica, options.microbatches, lowering);

  check_accelerated(step, options);
  const Stages stages = plan_stages(step, options);
  plan::plan_memory(step.program, step.memory);
  step.planned_bytes = plan::peak_bytes(step.program);
  step.outside_bytes = plan::outside_bytes(step.program);
  step.host_bytes = plan::host_bytes(step.program);
  for (int device = 0; device < step.devices(); ++device) {
    std::vector<const Stage*> own;
    const auto number = static_cast<std::size_t>(step.mesh.number_of(device));
    for (const auto& numbers : stages)
      own.push_back(number < numbers.size() ? numbers[number].get() : nullptr);
    step.traffic.push_back(planned_traffic(traffic_parts(step, step.program, own, device)));
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

CompiledStep with_emulated_traffic(CompiledStep step) {
  step.traffic.clear();
  for (DeviceId device{0}; device < step.devices(); ++device)
    step.traffic.push_back(
        emulated_traffic(step.program, PlaceId{step.place_of(device)}, device, step.devices()));
  return step;
}

CompiledStep compile_emulated_order(const Graph& model, const CompileOptions& options,
                                    schedule::Program order) {
  CompiledStep step = lay_out(model, options, std::move(order));
  // A device that sleeps has done with a message after F: it keeps nothing for I and W.
  for (schedule::SegmentRead& read : step.program.reads) read.until = schedule::Op::Forward;
  step.program =
      schedule::lower(std::move(step.program), {.replicas = options.layout.copies_of_order(),
                                                .receive_ahead = options.layout.receive_ahead});
  step.memory.resize(step.program.stages);
  step.kernel_scratch.assign(step.program.devices, 0);
  plan::plan_memory(step.program, step.memory);
  step.planned_bytes = plan::peak_bytes(step.program);
  step.outside_bytes = plan::outside_bytes(step.program);
  step.host_bytes = plan::host_bytes(step.program);
  step.budgets = options.budgets;
  step.program.budgets = budgets_of_places(step, step.budgets);
  return with_emulated_traffic(std::move(step));
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
  shape.replicas = layout.replicas_of_stages();
  const bool named = layout.schedule != "auto" && !schedule::names_file(layout.schedule);
  if (named) shape.early = layout.early;
  if (layout.schedule == "auto") shape.chunks = std::max(1, layout.chunks);
  const int chunks = named && shape.chunks == 0 ? schedule::schedule_named(layout.schedule).chunks
                                                : std::max(1, shape.chunks);
  if (Wiring(model, {std::ssize(model.segments)}).reads(model).empty()) return shape;
  const int stages =
      layout.cuts.empty() ? layout.pipeline * chunks : static_cast<int>(layout.partition.size());
  const Wiring wiring(model, segments_per_stage(model, layout, stages));
  require(layout.cuts.empty() || wiring.is_chain_of_stages(),
          "clients cut the model at different places, and its stages form no chain; give all "
          "clients the same layers");
  if (!wiring.is_chain_of_stages()) shape.graph = wiring.edges();
  return shape;
}

/// The program that the layout's schedule comes to.
Ordered scheduled(const Graph& model, const CompileOptions& options, const CompileOrder& compiled) {
  check(model);
  check_module_degrees(options);
  const schedule::PipelineShape shape = shape_of(model, options);
  Ordered found;
  // If every F comes before the first backward pass, one order is as good as another.
  const bool per_step = std::ranges::any_of(model.segments, runs_per_step);
  const bool any_order = options.layout.schedule == "auto";
  if (any_order && !per_step) {
    found = find_order(model, options, shape, compiled);
  } else {
    const std::string& name = options.layout.schedule;
    schedule::ProgramFile file = schedule::order_of(any_order ? "gpipe" : name, shape);
    if (!options.layout.cuts.empty())
      file.program = schedule::refine(file.program, options.layout.cuts);
    found.order = with_segments(std::move(file.program), model, options);
    found.step = compiled(found.order);
    found.step.warning = schedule::changed_order(name, file.reordered);
  }
  check_budgets(found.step);
  check_sound(found.step.program, options.purpose == Purpose::Train ? schedule::Level::Final
                                                                    : schedule::Level::Forward);
  return found;
}

CompiledStep compile_as_given(const Graph& given, const CompileOptions& options) {
  const Graph model = prepared(given, options.purpose);
  CompiledStep step = scheduled(model, options, [&](schedule::Program order) {
                        return compile_order(model, options, std::move(order));
                      }).step;
  const auto in_evaluation = schedule::verify(step.evaluation, schedule::Level::Forward);
  CLEAVE_CHECK(in_evaluation.empty(),
               "the evaluation is not sound: ", to_string(step.evaluation, in_evaluation[0]));
  add_patterns(step, options);
  return step;
}

/// Bytes that OUT and IN of a step carry, on all devices.
std::int64_t moved_bytes(const schedule::Program& program) {
  std::int64_t bytes = 0;
  for (const schedule::Buffer& b : program.buffers)
    if (is_outside(b)) bytes += 2 * b.bytes;
  return bytes;
}

/// Moves nothing out unless the plan would not fit; then what takes the fewest bytes, and both
/// activations and optimizer state only if neither is enough.
CompiledStep compile_to_fit(const Graph& model, CompileOptions options) {
  using schedule::Offload;
  std::optional<CompiledStep> best;
  const auto attempt = [&](Offload offload) {
    options.layout.offload = offload;
    try {
      CompiledStep step = compile(model, options);
      if (!best || moved_bytes(step.program) < moved_bytes(best->program)) best = std::move(step);
    } catch (const DoesNotFit&) {
      // The next attempt moves more; what the last one says is the user's to read.
    }
  };
  attempt(Offload::Nothing);
  if (best) return *std::move(best);
  attempt(Offload::Activations);
  const bool may_move = options.state_may_move && options.purpose == Purpose::Train;
  if (may_move) attempt(Offload::Optimizer);
  if (best) return *std::move(best);
  options.layout.offload = may_move ? Offload::Both : Offload::Activations;
  return compile(model, options);
}

}  // namespace

CompiledStep compile_emulated(const Graph& given, const CompileOptions& options) {
  check_emulated_degrees(options.layout);
  if (options.layout.offload != schedule::Offload::Nothing)
    return with_emulated_traffic(compile(given, options));
  const Graph model = prepared(given, Purpose::Train);
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
  if (!schedule::moves_activations(*options.layout.offload))
    return compile_as_given(given, options);
  try {
    return compile_as_given(given, options);
  } catch (const DoesNotFit&) {
    if (options.moves_beside == 1) throw;
  }
  CompileOptions sooner = options;
  sooner.moves_beside = 1;
  return compile_as_given(given, sooner);
}

}  // namespace cleave::engine
