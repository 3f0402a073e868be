#include "cleave/engine/stage/stage.h"

#include <algorithm>
#include <ranges>

#include "cleave/base/check.h"
#include "cleave/engine/stage/stage_call.h"
#include "cleave/ops/elementwise.h"
#include "cleave/ops/reduce.h"
#include "cleave/spec/trainable.h"

namespace cleave::engine {
namespace {

void search_non_finite(ops::Compute& compute, const LayerSpec& layer, ConstView result,
                       const char* what) {
  if (!result || result.dtype() == DType::I32 || ops::all_finite(compute, result)) return;
  throw NonFinite(std::string(what) + " of layer " + layer.name + " is not finite");
}

/// The gradient of a residual branch that left at the layer's x.
void add_branch(ops::Compute& compute, const Layer& layer, const LayerCall& call) {
  if (call.add && call.dx && !layer.adds_branch()) ops::add(compute, call.dx, call.add, call.dx);
}

}  // namespace

Stage::Stage(std::vector<SegmentSpec> segments, const StageOptions& options,
             const LayerFactory& make)
    : segments_(std::move(segments)),
      ports_(options.ports),
      keep_(options.keep),
      parameters_(segments_, options.state) {
  const int count = static_cast<int>(segments_.size());
  for (int s = 0; s < count; ++s) {
    std::vector<char> arrives;
    for (const auto& read : ports_[s].reads) arrives.push_back(read.has_value());
    layouts_.push_back(
        plan::layout_stage({&segments_[s], 1}, ports_[s].borders, keeps(s), arrives));
  }
  made_.push_back(make_layers(SegmentPass::kAllItems, segments_, make));
  for (const FewerSegments& fewer : options.fewer)
    made_.push_back(make_layers(fewer.items, fewer.segments, make));
}

/// Of all items, then of fewer.
template <class Visit>
void Stage::for_each_entry(Visit&& visit) const {
  for (const Made& made : made_) {
    for (const std::vector<Entry>& segment : made.segments)
      for (const Entry& entry : segment) visit(entry);
  }
}

std::int64_t Stage::kernel_scratch_bytes(ops::Compute& compute) const {
  std::int64_t most = 0;
  for_each_entry(
      [&](const Entry& entry) { most = std::max(most, entry.layer->scratch_bytes(compute)); });
  return aligned(most);
}

std::int64_t Stage::work_bytes() const {
  std::int64_t most = 0;
  for (const plan::StageLayout& layout : layouts_) {
    most = std::max({most, layout.forward_work, layout.input_work, layout.fused_work});
  }
  return most;
}

void Stage::bind(const LastingMemory& memory, int replica,
                 std::span<const StageParameters* const> others) {
  parameters_.bind(memory, replica, others);
  for_each_entry([&](const Entry& entry) {
    const LayerSpec& spec = entry.layer->spec();
    std::vector<Parameter> parameters;
    for (std::size_t i = 0; i < spec.parameters.size(); ++i) {
      const std::size_t index = entry.parameter + i;
      parameters.push_back({parameters_.value(index), parameters_.gradient(index)});
    }
    std::vector<View> constants;
    for (const TensorSpec& constant : spec.constants) {
      constants.emplace_back(parameters_.constant(constant), constant.dtype, constant.shape);
    }
    std::vector<View> sums;
    for (std::size_t i = 0; i < spec.sums.size(); ++i) {
      sums.emplace_back(memory.weights + parameters_.layout().sums[entry.sum + i].offset,
                        spec.sums[i].dtype, spec.sums[i].shape);
    }
    entry.layer->bind(parameters, constants, sums, *memory.memory);
  });
}

void Stage::place_values(int segment, std::byte* whole) {
  for (const Made& made : made_) {
    for (const Entry& entry : made.segments[segment]) {
      for (std::size_t i = 0; i < entry.layer->spec().parameters.size(); ++i) {
        entry.layer->move_value(static_cast<int>(i),
                                parameters_.value_at(entry.parameter + i, whole));
      }
    }
  }
}

/// Every stage that reads y has a buffer of its own for it.
void Stage::hand_out(ops::Compute& compute, const SegmentPass& pass) const {
  if (pass.frame.copies.empty()) return;
  const Entry& last = entries(pass).back();
  const TensorSpec& y = last.layer->spec().y;
  const View made = view_at(pass.frame, last.places->y, y);
  for (std::byte* copy : pass.frame.copies) ops::copy(compute, made, View(copy, y.dtype, y.shape));
}

/// In the order of the graph's edges, whichever way each gradient came: one order for all layouts.
void Stage::add_gradients(ops::Compute& compute, const SegmentPass& pass) const {
  if (pass.frame.gradients.empty()) return;
  const TensorSpec& y = entries(pass).back().layer->spec().y;
  CLEAVE_CHECK(!y.coded_gradient, y.name, " is coded, and has several readers");
  const View dy(pass.frame[static_cast<std::size_t>(plan::Region::OutputGradient)], y.dtype,
                y.shape);
  for (std::byte* addend : pass.frame.gradients)
    ops::add(compute, dy, View(addend, y.dtype, y.shape), dy);
}

void Stage::forward(ops::Compute& compute, const SegmentPass& pass, Search search) {
  for (const Entry& entry : entries(pass)) {
    const Call call(room_, entry, pass);
    if (pass.begins_step) entry.layer->begin_step(compute, call);
    entry.layer->forward(compute, call);
    if (search == Search::NonFinite)
      search_non_finite(compute, entry.layer->spec(), call->y, "the output");
    between_layers_();
  }
  hand_out(compute, pass);
  clear_after_output(compute, pass);
}

void Stage::recompute(ops::Compute& compute, const SegmentPass& pass) {
  for (const int layer : layouts_[pass.segment].again) {
    const Entry& entry = entries(pass)[static_cast<std::size_t>(layer)];
    entry.layer->forward(compute, Call(room_, entry, pass, plan::BackwardPlaces{}));
    between_layers_();
  }
}

void Stage::backward_input(ops::Compute& compute, const SegmentPass& pass, Search search) {
  if (!ports_[pass.segment].borders.backward) return;
  add_gradients(compute, pass);
  for (const Entry& entry : entries(pass) | std::views::reverse) {
    const Call call(room_, entry, pass, entry.places->split);
    entry.layer->backward_input(compute, call);
    add_branch(compute, *entry.layer, call);
    if (search == Search::NonFinite)
      search_non_finite(compute, entry.layer->spec(), call->dx, "the gradient");
    between_layers_();
  }
  clear_after_gradients(compute, pass, Backward::Split);
}

void Stage::backward_weight(ops::Compute& compute, const SegmentPass& pass) {
  const std::int64_t shift =
      pass.sum * parameters_.layout().segments[pass.segment].gradient_bytes();
  for (const Entry& entry : entries(pass) | std::views::reverse) {
    if (!trains(entry.layer->spec())) continue;
    entry.layer->backward_weight(compute, Call(room_, entry, pass, entry.places->split, shift));
    between_layers_();
  }
}

void Stage::backward(ops::Compute& compute, const SegmentPass& pass, Search search) {
  if (!ports_[pass.segment].borders.backward) return;
  add_gradients(compute, pass);
  const std::int64_t shift =
      pass.sum * parameters_.layout().segments[pass.segment].gradient_bytes();
  for (const Entry& entry : entries(pass) | std::views::reverse) {
    const Call call(room_, entry, pass, entry.places->fused, shift);
    if (trains(entry.layer->spec())) {
      entry.layer->backward(compute, call);
    } else {
      entry.layer->backward_input(compute, call);
    }
    add_branch(compute, *entry.layer, call);
    if (search == Search::NonFinite)
      search_non_finite(compute, entry.layer->spec(), call->dx, "the gradient");
    between_layers_();
  }
  clear_after_gradients(compute, pass, Backward::Fused);
}

View Stage::tensor_of(const StageInput& input, const SegmentPass& pass) const {
  const Entry& entry = entries(pass)[static_cast<std::size_t>(input.layer)];
  const LayerSpec& spec = entry.layer->spec();
  if (input.read == StageInput::kX) return view_at(pass.frame, entry.places->x, spec.x);
  const auto read = static_cast<std::size_t>(input.read);
  const plan::Place& place =
      entry.first != nullptr ? entry.first->reads[read] : entry.places->reads[read];
  return view_at(pass.frame, place, spec.reads[read].tensor);
}

View Stage::tensor_again(const StageInput& input, const SegmentPass& pass) const {
  if (keeps(pass.segment) != plan::Keep::Inputs || input.read == StageInput::kX) return {};
  const Entry& entry = entries(pass)[static_cast<std::size_t>(input.layer)];
  const auto read = static_cast<std::size_t>(input.read);
  return view_at(pass.frame, entry.places->reads[read], entry.layer->spec().reads[read].tensor);
}

View Stage::losses(const SegmentPass& pass) const {
  if (ports_[pass.segment].borders.y_leaves) return {};
  const Entry& last = entries(pass).back();
  return view_at(pass.frame, last.places->y, last.layer->spec().y);
}

}  // namespace cleave::engine
