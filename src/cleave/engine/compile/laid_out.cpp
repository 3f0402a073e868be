#include "cleave/engine/compile/laid_out.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "cleave/base/check.h"
#include "cleave/comm/communicator.h"
#include "cleave/engine/compile/fewer_shares.h"
#include "cleave/engine/compile/lowering.h"
#include "cleave/engine/compile/module_shares.h"
#include "cleave/engine/compile/step_stages.h"
#include "cleave/engine/compile/wires.h"
#include "cleave/parallel/same_order.h"
#include "cleave/plan/tune/layout_check.h"
#include "cleave/plan/tune/stage_gradients.h"
#include "cleave/spec/trainable.h"

namespace cleave::engine {
namespace {

/// One message takes y to a stage; the gradients of all that read it there come back in one.
void set_edges(CompiledStep& step) {
  const Wiring wiring = wiring_of(step);
  const Graph& share = step.shares[0];
  step.program.edges = wiring.edges();
  step.program.reads = wiring.reads(share);
  for (const Wire& wire : wiring.wires()) {
    if (wire.edge < 0) continue;
    const TensorSpec& y = share.segments[wire.from].layers.back().y;
    step.program.edges[wire.edge].forward_bytes = y.bytes();
    step.program.edges[wire.edge].backward_bytes = y.gradient_bytes() * std::ssize(wire.readers);
  }
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

/// A weight has one layout of memory: its uses share a device in every replica, or in none.
void check_ties_of_cuts(const CompiledStep& step) {
  for (std::size_t t = 0; t < step.program.ties.size(); ++t) {
    const std::vector<int>& first = step.program.placement[step.program.ties[t].first];
    const std::vector<int>& second = step.program.placement[step.program.ties[t].second];
    for (std::size_t r = 1; r < first.size(); ++r)
      require((first[r] == second[r]) == (first[0] == second[0]), "both uses of ",
              step.tie_names[t],
              " are with one owner for some clients and with two for others; "
              "let the cuts of all clients leave them together, or part them");
  }
}

/// A gradient is made where somebody wants it, which follows from what is trained. A stage runs I
/// through its own layers even if no gradient leaves it.
void leave_out_frozen(CompiledStep& step) {
  const std::vector<schedule::GradientKind> kinds = plan::segment_gradients(step.model);
  const Wiring wiring = wiring_of(step);
  for (const Wire& wire : wiring.wires())
    if (wire.edge >= 0)
      step.program.edges[wire.edge].backward = kinds[wire.from] != schedule::GradientKind::None;
  const std::vector<std::int64_t> sizes(step.program.segments.begin(), step.program.segments.end());
  plan::set_gradients(step.program, plan::group_gradients(kinds, sizes));
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
  const Layout& layout = options.layout;
  const int replicas = layout.replicas();
  const int shards = options.data_shards == 0 ? replicas : options.data_shards;
  if (layout.encoder_data > 0) plan::check_modules(layout.encoder_data, layout.data);
  plan::check_shards("data", shards, replicas);
  const int microbatch = layout.microbatch;
  plan::check_batch("train.batch", std::int64_t{options.microbatches} * replicas * microbatch,
                    microbatch, shards);
  return {options.microbatches, shards / replicas};
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
      const std::int64_t rows = layer.x.shape[0] * options.microbatches * options.layout.replicas();
      require(layer.collected[0].shape[0] == rows, "the loss ", layer.name, " is over ",
              layer.collected[0].shape[0], " samples, and a step has ", rows);
      step.program.collecting.push_back(s);
    }
  }
}

}  // namespace

Graph prepared(Graph model, Purpose purpose) {
  if (purpose == Purpose::Evaluate) {
    freeze(model.segments);
  } else {
    leave_out_unwanted(model);
  }
  return model;
}

void check_message_count(std::int64_t edges, std::int64_t replicas, std::int64_t microbatches) {
  constexpr std::int64_t kMost = comm::kTags - 2;  // measurements between steps have the last two
  const std::int64_t messages = 2 * edges * replicas * microbatches;
  require(messages <= kMost, "a step of ", microbatches, " microbatches on ", replicas,
          " replicas along ", edges, " edges between stages has ", messages,
          " messages to be told apart, and at most ", kMost,
          " can be; take larger microbatches (train.microbatch) or fewer stages");
}

bool runs_per_step(const SegmentSpec& segment) {
  return std::ranges::any_of(segment.layers,
                             [](const LayerSpec& layer) { return !layer.collected.empty(); });
}

CompiledStep lay_out(const Graph& model, const CompileOptions& options, schedule::Program order) {
  const Layout& layout = options.layout;
  CompiledStep step;
  step.model = model;
  give_slots(step.model.segments, *options.optimizer, options.hyper);
  step.program = std::move(order);
  auto next = step.model.segments.begin();
  for (const int size : step.program.segments) {
    step.stages.emplace_back(next, next + size);
    next += size;
  }
  step.mesh = layout.mesh();
  step.shares = shares_of(step.model, options, RowsOf::AllItems);
  if (options.purpose != Purpose::Evaluate) std::ranges::for_each(step.shares, leave_out_unwanted);
  for (const FewerItems& fewer : options.fewer)
    step.fewer.push_back(fewer_shares(fewer, options, step.shares));
  step.usual_items = options.usual_items;
  set_edges(step);
  check_message_count(std::ssize(step.program.edges), layout.replicas(), options.microbatches);
  if (options.purpose == Purpose::Train) leave_out_frozen(step);
  parallel::check_same_order(step.shares);
  set_ties(step);
  check_ties_of_cuts(step);
  set_collecting(step, options);
  step.fold = fold_of(options);
  plan::check_zero(layout.zero, layout.replicas());
  check_weights_of_w(model, layout, step.program);
  step.zero = layout.zero;
  step.arithmetic = options.arithmetic;
  step.device_kinds = options.device_kinds;
  step.spill = options.spill;
  step.state_moves = options.purpose == Purpose::Train &&
                     schedule::moves_state(layout.offload.value_or(schedule::Offload::Nothing));
  step.keep = keep_of(step.stages, layout.recompute);
  if (options.purpose != Purpose::Evaluate) keep_frozen(step);
  step.tensor_names = tensor_names(model.segments);
  for (int s = 0; s < step.program.stages; ++s)
    for (int number = 0; number < devices_of(step, s); ++number)
      std::ranges::move(owned_pieces(segments_of(step, s, number)),
                        std::back_inserter(step.pieces));
  std::ranges::sort(step.pieces);
  return step;
}

}  // namespace cleave::engine
