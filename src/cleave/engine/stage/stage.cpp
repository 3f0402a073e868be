#include "cleave/engine/stage/stage.h"

#include <algorithm>
#include <ranges>

#include "cleave/base/check.h"
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

/// The arguments of one call of a layer; `room` is for the views of its kept tensors.
class Stage::Call {
 public:
  /// F.
  Call(std::span<View> room, const Entry& entry, const SegmentPass& pass)
      : spec_(entry.layer->spec()), frame_(pass.frame), room_(room) {
    call_.microbatch = pass.microbatch;
    if (entry.first != nullptr) {
      set_forward(*entry.first);
    } else {
      set_forward(*entry.places);
    }
    set_collected(pass);
  }

  /// R, I and W.
  Call(std::span<View> room, const Entry& entry, const SegmentPass& pass,
       const plan::BackwardPlaces& backward, std::int64_t gradient_shift = 0)
      : spec_(entry.layer->spec()), frame_(pass.frame), room_(room) {
    set_forward(*entry.places);
    call_.microbatch = pass.microbatch;
    call_.dy = gradient_at(frame_, backward.dy, spec_.y);
    call_.dx = gradient_at(frame_, backward.dx, spec_.x);
    call_.add = view_at(frame_, backward.add, spec_.x);
    call_.gradient = pass.gradient;
    call_.ends_sum = pass.ends_sum;
    call_.sum_shift = pass.replica * plan::bytes_of_sums(spec_);
    call_.gradient_shift = gradient_shift;
    call_.loss_scale = pass.loss_scale;
    const std::size_t kept = backward.kept_by_input.size();  // none in R
    const std::span<View> views =
        room_.subspan(spec_.reads.size() + spec_.kept_by_forward.size(), kept);
    for (std::size_t i = 0; i < kept; ++i)
      views[i] = view_at(frame_, backward.kept_by_input[i], spec_.kept_by_input[i]);
    call_.kept_by_input = views;
    set_read_gradients(*entry.places, spec_.reads.size() + spec_.kept_by_forward.size() + kept);
    set_collected(pass);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  operator const LayerCall&() const { return call_; }
  const LayerCall* operator->() const { return &call_; }

 private:
  void set_collected(const SegmentPass& pass) {
    const std::size_t count = spec_.collected.size();
    if (count == 0) return;
    const std::span<View> views = room_.last(count);
    std::byte* at = pass.collected;
    for (std::size_t i = 0; i < count; ++i) {
      views[i] = View(at, spec_.collected[i].dtype, spec_.collected[i].shape);
      at += spec_.collected[i].bytes();
    }
    call_.collected = views;
    call_.first_row = pass.number * spec_.x.shape[0];
  }

  template <class Places>
  void set_forward(const Places& places) {
    call_.x = view_at(frame_, places.x, spec_.x);
    call_.y = view_at(frame_, places.y, spec_.y);
    call_.skip = view_at(frame_, places.skip, spec_.x);
    const std::size_t reads = spec_.reads.size();
    for (std::size_t i = 0; i < reads; ++i)
      room_[i] = view_at(frame_, places.reads[i], spec_.reads[i].tensor);
    call_.reads = room_.first(reads);
    const std::size_t kept = spec_.kept_by_forward.size();
    const std::span<View> views = room_.subspan(reads, kept);
    for (std::size_t i = 0; i < kept; ++i)
      views[i] = view_at(frame_, places.kept_by_forward[i], spec_.kept_by_forward[i].tensor);
    call_.kept_by_forward = views;
  }

  /// The gradient of what arrives at a port stands right after it in the frame.
  void set_read_gradients(const plan::LayerPlaces& places, std::size_t first) {
    const std::span<View> views = room_.subspan(first, spec_.reads.size());
    for (std::size_t i = 0; i < views.size(); ++i) {
      const plan::Place& at = places.reads[i];
      const bool arrives = at.region == plan::Region::Port;
      views[i] =
          arrives ? view_at(frame_, {at.region, at.offset + 1}, spec_.reads[i].tensor) : View();
    }
    call_.read_gradients = views;
  }

  const LayerSpec& spec_;
  const Frame& frame_;
  std::span<View> room_;
  LayerCall call_;
};

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
  std::size_t parameter = 0;
  for (int s = 0; s < count; ++s) {
    first_entry_.push_back(entries_.size());
    const plan::StageLayout& layout = layouts_[s];
    for (std::size_t k = 0; k < layout.layers.size(); ++k) {
      const LayerSpec& layer = segments_[s].layers[k];
      entries_.push_back({make(layer), &layout.layers[k],
                          layout.first.empty() ? nullptr : &layout.first[k], parameter});
      parameter += layer.parameters.size();
      room_.resize(std::max(room_.size(), 2 * layer.reads.size() + layer.kept_by_forward.size() +
                                              layer.kept_by_input.size() + layer.collected.size()));
    }
  }
  first_entry_.push_back(entries_.size());
}

std::span<const Stage::Entry> Stage::entries(int segment) const {
  return std::span(entries_).subspan(first_entry_[segment],
                                     first_entry_[segment + 1] - first_entry_[segment]);
}

std::int64_t Stage::kernel_scratch_bytes(ops::Compute& compute) const {
  std::int64_t most = 0;
  for (const Entry& entry : entries_) most = std::max(most, entry.layer->scratch_bytes(compute));
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
  std::size_t next_sum = 0;
  for (Entry& entry : entries_) {
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
    for (const TensorSpec& sum : spec.sums) {
      sums.emplace_back(memory.weights + parameters_.layout().sums[next_sum++].offset, sum.dtype,
                        sum.shape);
    }
    entry.layer->bind(parameters, constants, sums, *memory.memory);
  }
}

void Stage::place_values(int segment, std::byte* whole) {
  for (const Entry& entry : entries(segment)) {
    for (std::size_t i = 0; i < entry.layer->spec().parameters.size(); ++i) {
      entry.layer->move_value(static_cast<int>(i),
                              parameters_.value_at(entry.parameter + i, whole));
    }
  }
}

/// Every stage that reads y has a buffer of its own for it.
void Stage::hand_out(ops::Compute& compute, const SegmentPass& pass) const {
  if (pass.frame.copies.empty()) return;
  const Entry& last = entries(pass.segment).back();
  const TensorSpec& y = last.layer->spec().y;
  const View made = view_at(pass.frame, last.places->y, y);
  for (std::byte* copy : pass.frame.copies) ops::copy(compute, made, View(copy, y.dtype, y.shape));
}

/// In the order of the graph's edges, whichever way each gradient came: one order for all layouts.
void Stage::add_gradients(ops::Compute& compute, const SegmentPass& pass) const {
  if (pass.frame.gradients.empty()) return;
  const TensorSpec& y = entries(pass.segment).back().layer->spec().y;
  CLEAVE_CHECK(!y.coded_gradient, y.name, " is coded, and has several readers");
  const View dy(pass.frame[static_cast<std::size_t>(plan::Region::OutputGradient)], y.dtype,
                y.shape);
  for (std::byte* addend : pass.frame.gradients)
    ops::add(compute, dy, View(addend, y.dtype, y.shape), dy);
}

void Stage::forward(ops::Compute& compute, const SegmentPass& pass, Search search) {
  for (const Entry& entry : entries(pass.segment)) {
    const Call call(room_, entry, pass);
    if (pass.begins_step) entry.layer->begin_step(compute, call);
    entry.layer->forward(compute, call);
    if (search == Search::NonFinite)
      search_non_finite(compute, entry.layer->spec(), call->y, "the output");
    between_layers_();
  }
  hand_out(compute, pass);
}

void Stage::recompute(ops::Compute& compute, const SegmentPass& pass) {
  for (const int layer : layouts_[pass.segment].again) {
    const Entry& entry = entries(pass.segment)[static_cast<std::size_t>(layer)];
    entry.layer->forward(compute, Call(room_, entry, pass, plan::BackwardPlaces{}));
    between_layers_();
  }
}

void Stage::backward_input(ops::Compute& compute, const SegmentPass& pass, Search search) {
  if (!ports_[pass.segment].borders.backward) return;
  add_gradients(compute, pass);
  for (const Entry& entry : entries(pass.segment) | std::views::reverse) {
    const Call call(room_, entry, pass, entry.places->split);
    entry.layer->backward_input(compute, call);
    add_branch(compute, *entry.layer, call);
    if (search == Search::NonFinite)
      search_non_finite(compute, entry.layer->spec(), call->dx, "the gradient");
    between_layers_();
  }
}

void Stage::backward_weight(ops::Compute& compute, const SegmentPass& pass) {
  const std::int64_t shift =
      pass.sum * parameters_.layout().segments[pass.segment].gradient_bytes();
  for (const Entry& entry : entries(pass.segment) | std::views::reverse) {
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
  for (const Entry& entry : entries(pass.segment) | std::views::reverse) {
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
}

View Stage::tensor_of(const StageInput& input, const SegmentPass& pass) const {
  const Entry& entry = entries(pass.segment)[static_cast<std::size_t>(input.layer)];
  const LayerSpec& spec = entry.layer->spec();
  if (input.read == StageInput::kX) return view_at(pass.frame, entry.places->x, spec.x);
  const auto read = static_cast<std::size_t>(input.read);
  const plan::Place& place =
      entry.first != nullptr ? entry.first->reads[read] : entry.places->reads[read];
  return view_at(pass.frame, place, spec.reads[read].tensor);
}

View Stage::tensor_again(const StageInput& input, const SegmentPass& pass) const {
  if (keeps(pass.segment) != plan::Keep::Inputs || input.read == StageInput::kX) return {};
  const Entry& entry = entries(pass.segment)[static_cast<std::size_t>(input.layer)];
  const auto read = static_cast<std::size_t>(input.read);
  return view_at(pass.frame, entry.places->reads[read], entry.layer->spec().reads[read].tensor);
}

View Stage::losses(const SegmentPass& pass) const {
  if (ports_[pass.segment].borders.y_leaves) return {};
  const Entry& last = entries(pass.segment).back();
  return view_at(pass.frame, last.places->y, last.layer->spec().y);
}

}  // namespace cleave::engine
