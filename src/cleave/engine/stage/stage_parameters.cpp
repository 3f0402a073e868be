#include "cleave/engine/stage/stage_parameters.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/spec/packed_rows.h"

namespace cleave::engine {

View ParameterState::slot(std::string_view name) const {
  const auto found = std::ranges::find(slots, name, &SlotState::name);
  CLEAVE_CHECK(found != slots.end(), spec->name, " has no slot ", name);
  return found->values;
}

StageParameters::StageParameters(std::span<const SegmentSpec> segments,
                                 const plan::StateOptions& options)
    : layout_(plan::layout_state(segments, options)) {
  first_.push_back(0);
  for (const plan::SegmentState& segment : layout_.segments)
    first_.push_back(first_.back() + segment.parameters.size());
}

void StageParameters::bind(const LastingMemory& memory, int replica,
                           std::span<const StageParameters* const> others) {
  memory_ = memory;
  replica_ = replica;
  for (int s = 0; s < static_cast<int>(layout_.segments.size()); ++s) {
    for (const plan::ParameterPlace& place : layout_.segments[s].parameters)
      bind_parameter(s, place, others);
  }
}

StageParameters::OwnElements StageParameters::part_of(const plan::SegmentState& segment,
                                                      const plan::ParameterPlace& place) const {
  const std::int64_t end = place.at + place.spec->elements();
  for (const plan::ShareRun& run : segment.runs) {
    if (place.at < run.begin() || place.at >= run.end()) continue;
    const std::int64_t first = std::clamp(run.borders[replica_], place.at, end);
    const std::int64_t last = std::clamp(run.borders[replica_ + 1], place.at, end);
    return {first, last, run.at + first - run.borders[replica_]};
  }
  return {place.at, end, place.at};
}

std::pair<std::byte*, std::byte*> StageParameters::optimizer_bases(int segment) const {
  if (memory_.fetched.empty()) return {memory_.optimizer, memory_.optimizer};
  // A segment of which nothing learns has no state, neither here nor outside.
  if (memory_.fetched[segment] == nullptr) return {nullptr, nullptr};
  const std::int64_t begin = layout_.segments[segment].state;
  return {memory_.fetched[segment] - begin, memory_.stored[segment] - begin};
}

void StageParameters::bind_parameter(int segment, const plan::ParameterPlace& place,
                                     std::span<const StageParameters* const> others) {
  const plan::SegmentState& at = layout_.segments[segment];
  const OwnElements part = part_of(at, place);
  ParameterState state{
      .spec = place.spec, .first = part.begin - place.at, .borrowed = place.borrowed};
  gradients_.emplace_back();
  if (place.spec->trainable && layout_.options.sums > 0) bind_gradient(segment, place, part, state);
  if (place.spec->held == Held::Packed) {
    const Shape& shape = place.spec->shape;
    const std::int64_t begin = at.owned_at(place.at) * size_of(layout_.options.dtype);
    state.value = View(memory_.weights + at.values + begin, DType::I32,
                       {shape[0], packed_row_words(shape[1])});
    values_.push_back(state.value);
  } else if (place.borrowed) {
    borrow_values(others, state);
  } else {
    bind_values(segment, place, part, state);
  }
  shares_.push_back(state);
}

void StageParameters::bind_gradient(int segment, const plan::ParameterPlace& place,
                                    const OwnElements& part, ParameterState& state) {
  gradients_.back() =
      View(sums_of(segment) + place.at * size_of(DType::F32), DType::F32, place.spec->shape);
  const bool apart = keeps_shares_apart();
  state.gradient = View((apart ? memory_.shares[segment] : sums_of(segment)) +
                            (apart ? part.at : part.begin) * size_of(DType::F32),
                        DType::F32, {part.end - part.begin});
}

void StageParameters::bind_values(int segment, const plan::ParameterPlace& place,
                                  const OwnElements& part, ParameterState& state) {
  const plan::SegmentState& at = layout_.segments[segment];
  const DType dtype = layout_.options.dtype;
  // Among all elements of the segment, or among this replica's share of them.
  const auto share = [&](std::byte* base, DType type, bool only_shares) {
    const std::int64_t begin = only_shares ? part.at : at.owned_at(part.begin);
    return View(base + begin * size_of(type), type, {part.end - part.begin});
  };
  const auto lasting = [&](std::byte* base) {
    return share(base, DType::F32, layout_.shares_state());
  };
  std::byte* const values = memory_.weights + at.values;
  values_.push_back(layout_.shares_values() ? View()
                                            : View(values + at.owned_at(place.at) * size_of(dtype),
                                                   dtype, place.spec->shape));
  state.value = share(values, dtype, layout_.shares_values());
  const auto [in_step, at_rest] = optimizer_bases(segment);
  if (dtype == DType::F32) {
    state.master = state.master_at_rest = state.value;
  } else if (place.spec->trainable) {
    const bool moves = layout_.options.masters_with_slots;
    state.master = lasting((moves ? in_step : memory_.weights) + at.masters);
    state.master_at_rest = lasting((moves ? at_rest : memory_.weights) + at.masters);
  }
  for (std::size_t i = 0; i < place.spec->slots.size(); ++i)
    state.slots.push_back(
        {place.spec->slots[i], lasting(in_step + at.slots[i]), lasting(at_rest + at.slots[i])});
}

void StageParameters::borrow_values(std::span<const StageParameters* const> others,
                                    ParameterState& state) {
  const std::string& name = state.spec->tied_to;
  const auto borrow = [&](const StageParameters& from) {
    for (std::size_t i = 0; i < from.shares_.size(); ++i) {
      const ParameterState& owner = from.shares_[i];
      if (owner.spec->name != name) continue;
      state.value = owner.value;
      state.master = owner.master;
      state.master_at_rest = owner.master_at_rest;
      state.slots = owner.slots;
      return values_.push_back(from.values_[i]);
    }
  };
  for (const StageParameters* other : others) borrow(*other);
  if (values_.size() == shares_.size()) borrow(*this);
  CLEAVE_CHECK(values_.size() == shares_.size() + 1, name, " is not bound yet");
}

std::span<const ParameterState> StageParameters::of_segment(int segment) const {
  return std::span(shares_).subspan(first_[segment], first_[segment + 1] - first_[segment]);
}

View StageParameters::value_at(std::size_t index, std::byte* base) const {
  const auto segment = std::ranges::upper_bound(first_, index) - first_.begin() - 1;
  const plan::ParameterPlace& place = layout_.segments[segment].parameters[index - first_[segment]];
  const DType dtype = layout_.options.dtype;
  return View(base + place.at * size_of(dtype), dtype, place.spec->shape);
}

View StageParameters::sums(int segment, int sum) const {
  const plan::SegmentState& state = layout_.segments[segment];
  return View(sums_of(segment) + sum * state.gradient_bytes(), DType::F32, {state.elements});
}

void StageParameters::keep_share(int segment, const plan::ShareRun& run) const {
  const std::int64_t element = size_of(DType::F32);
  const std::int64_t begin = run.borders[replica_];
  memory_.memory->copy(memory_.shares[segment] + run.at * element,
                       memory_.sums[segment] + begin * element,
                       (run.borders[replica_ + 1] - begin) * element);
}

std::span<std::byte> StageParameters::whole_values(int segment) const {
  const plan::SegmentState& state = layout_.segments[segment];
  return {memory_.weights + state.values,
          static_cast<std::size_t>(state.owned * size_of(layout_.options.dtype))};
}

void StageParameters::copy_share(int segment, std::byte* whole) const {
  for (std::size_t i = first_[segment]; i < first_[segment + 1]; ++i) {
    const ParameterState& share = shares_[i];
    const View to = value_at(i, whole);
    memory_.memory->copy(to.bytes() + share.first * size_of(to.dtype()), share.value.bytes(),
                         share.value.byte_count());
  }
}

std::byte* StageParameters::constant(const TensorSpec& constant) const {
  const auto place = std::ranges::find_if(layout_.constants, [&](const plan::ConstantPlace& c) {
    return c.spec->name == constant.name;
  });
  return memory_.weights + place->offset;
}

}  // namespace cleave::engine
