#include "cleave/plan/memory/state_layout.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/spec/packed_rows.h"

namespace cleave::plan {
namespace {

std::int64_t take(std::int64_t& end, std::int64_t elements, DType dtype) {
  return std::exchange(end, end + aligned(elements * size_of(dtype)));
}

std::int64_t whole_grains(std::int64_t elements) {
  return (elements + kParameterGrain - 1) / kParameterGrain * kParameterGrain;
}

/// Elements of the flat order that a parameter takes: as many as its values have room in.
std::int64_t flat_elements(const ParameterSpec& parameter, DType dtype) {
  const std::int64_t size = size_of(dtype);
  return whole_grains((value_bytes(parameter, dtype) + size - 1) / size);
}

bool contains(std::span<const std::string> names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// The flat order: as the layers have them, but those with more slots first, then what is borrowed,
/// and after all what is not trained, in the same order. So the parameters that have a slot i are
/// the first of them, for every i.
SegmentState order(const SegmentSpec& segment, const StateOptions& options) {
  SegmentState state;
  for (const LayerSpec& layer : segment.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      state.parameters.push_back({.spec = &parameter,
                                  .borrowed = parameter.held == Held::Plain &&
                                              contains(options.resident, parameter.tied_to)});
    }
  }
  std::vector<ParameterPlace*> places;
  for (ParameterPlace& place : state.parameters) places.push_back(&place);
  std::ranges::stable_sort(places, {}, [](const ParameterPlace* place) {
    return std::tuple(!place->spec->trainable, place->borrowed, -std::ssize(place->spec->slots));
  });
  for (ParameterPlace* place : places) {
    const std::int64_t elements = flat_elements(*place->spec, options.dtype);
    place->at = std::exchange(state.all, state.all + elements);
    if (place->spec->trainable) {
      state.elements = state.all;
      if (!place->borrowed) state.owned = state.all;
    } else if (!place->borrowed) {
      state.frozen += elements;
    }
  }
  return state;
}

/// Where a parameter may be cut, in elements of the flat order: between blocks of the gradient
/// norm, between rows where its rows are slices of a tensor's, or only between whole pieces.
void add_cuts(const ParameterPlace& place, std::vector<std::int64_t>& cuts) {
  const Shape& shape = place.spec->shape;
  const std::int64_t row = shape.rank() > 1 ? shape.elements() / shape[0] : 1;
  const auto add = [&](std::int64_t element) {
    if (element % kParameterGrain == 0) cuts.push_back(place.at + element);
  };
  for (const Piece& piece : place.spec->pieces) {
    if (place.spec->whole_pieces) {
      add(piece.first * row);
      continue;
    }
    if (piece.dim != 0) {
      const bool dense = piece.extent == shape[piece.dim];
      for (std::int64_t r = 0; r < shape[0]; ++r)
        if (!dense || r * row % kShareBlock == 0) add(r * row);
      return;
    }
    const std::int64_t begin = piece.first * row;
    const std::int64_t end = begin + piece.extent * row;
    for (std::int64_t at = begin; at < end; at += kShareBlock) add(at);
  }
}

/// As even as the cuts allow.
std::vector<std::int64_t> borders_of(const std::vector<std::int64_t>& cuts, std::int64_t begin,
                                     std::int64_t end, int replicas) {
  std::vector<std::int64_t> borders = {begin};
  for (int r = 1; r < replicas; ++r) {
    const std::int64_t wanted = begin + (end - begin) * r / replicas;
    const auto above = std::ranges::lower_bound(cuts, wanted);
    std::int64_t best = above == cuts.end() ? end : *above;
    if (above != cuts.begin() && wanted - *std::prev(above) < best - wanted)
      best = *std::prev(above);
    borders.push_back(std::max(best, borders.back()));
  }
  borders.push_back(end);
  return borders;
}

/// Gives the shares of a run their place, after those of the runs before it.
void add_run(ShareRun run, SegmentState& state) {
  std::int64_t most = 0;
  for (std::size_t r = 0; r + 1 < run.borders.size(); ++r)
    most = std::max(most, run.borders[r + 1] - run.borders[r]);
  if (run.trained) {
    run.at = std::exchange(state.share, state.share + most);
    if (!run.borrowed) state.owned_share = state.share;
  } else {
    // Among values only, where nothing is borrowed: the shares after those of what is trained.
    run.at = state.owned_share + state.frozen_share;
    if (!run.borrowed) state.frozen_share += most;
  }
  state.runs.push_back(std::move(run));
}

/// Cuts the flat order into runs, and each run into shares. What is not trained is shared only
/// where values are.
void divide(SegmentState& state, const StateOptions& options) {
  std::vector<const ParameterPlace*> places;
  for (const ParameterPlace& place : state.parameters) {
    CLEAVE_CHECK(options.zero < 3 || place.spec->held == Held::Plain, place.spec->name,
                 " has rows that replicas do not share");
    if (place.spec->trainable || options.zero >= 3) places.push_back(&place);
  }
  std::ranges::sort(places, {}, &ParameterPlace::at);
  const auto alone = [&](const ParameterPlace& place) {
    return !place.spec->tied_to.empty() || contains(options.tied, place.spec->name);
  };
  for (std::size_t i = 0; i < places.size();) {
    const ParameterPlace& first = *places[i];
    const std::int64_t begin = first.at;
    std::vector<std::int64_t> cuts;
    std::int64_t end = begin;
    do {
      add_cuts(*places[i], cuts);
      end = places[i]->at + whole_grains(places[i]->spec->elements());
      ++i;
    } while (i < places.size() && !alone(first) && !alone(*places[i]) &&
             places[i]->spec->trainable == first.spec->trainable);
    add_run({.borders = borders_of(cuts, begin, end, options.replicas),
             .borrowed = first.borrowed,
             .trained = first.spec->trainable},
            state);
  }
}

/// Elements that slot `index` of a segment needs room for, where replicas may have shares.
std::int64_t slot_elements(const SegmentState& state, std::size_t index) {
  std::int64_t end = 0;  // of the parameters that have it
  for (const ParameterPlace& place : state.parameters) {
    if (!place.borrowed && place.spec->slots.size() > index)
      end = std::max(end, place.at + whole_grains(place.spec->elements()));
  }
  if (state.runs.empty()) return end;
  std::int64_t most = 0;
  for (const ShareRun& run : state.runs) {
    for (std::size_t r = 0; r + 1 < run.borders.size(); ++r) {
      if (run.borrowed || !run.trained || run.borders[r] >= end) continue;
      most = std::max(most, run.at + std::min(run.borders[r + 1], end) - run.borders[r]);
    }
  }
  return most;
}

/// Gives every slot of a segment its room, one after the other.
void add_slots(SegmentState& state, StateLayout& layout) {
  std::size_t slots = 0;
  for (const ParameterPlace& place : state.parameters)
    slots = std::max(slots, place.spec->slots.size());
  for (std::size_t i = 0; i < slots; ++i)
    state.slots.push_back(take(layout.optimizer, slot_elements(state, i), DType::F32));
}

void add_constants(const SegmentSpec& segment, StateLayout& layout) {
  for (const LayerSpec& layer : segment.layers) {
    for (const TensorSpec& sum : layer.sums) {
      layout.sums.push_back({&sum, std::exchange(layout.weights, layout.weights + sum.bytes())});
    }
    layout.weights += (layout.options.sides - 1) * bytes_of_sums(layer);
    for (const TensorSpec& constant : layer.constants) {
      const bool known = std::ranges::any_of(
          layout.constants, [&](const ConstantPlace& c) { return c.spec->name == constant.name; });
      if (known) continue;
      layout.constants.push_back(
          {&constant, std::exchange(layout.weights, layout.weights + constant.bytes())});
    }
  }
}

}  // namespace

std::int64_t bytes_of_sums(const LayerSpec& layer) {
  std::int64_t bytes = 0;
  for (const TensorSpec& sum : layer.sums) bytes += sum.bytes();
  return bytes;
}

StateLayout layout_state(std::span<const SegmentSpec> segments, const StateOptions& options) {
  StateLayout layout{.options = options};
  layout.options.resident = layout.options.tied = {};
  for (const SegmentSpec& segment : segments) {
    SegmentState state = order(segment, options);
    if (layout.shares_state()) divide(state, options);
    const std::int64_t values = layout.shares_values() ? state.owned_share + state.frozen_share
                                                       : state.owned + state.frozen;
    const std::int64_t lasting = layout.shares_state() ? state.owned_share : state.owned;
    state.values = take(layout.weights, values, options.dtype);
    state.state = layout.optimizer;
    if (options.dtype != DType::F32)
      state.masters =
          take(options.masters_with_slots ? layout.optimizer : layout.weights, lasting, DType::F32);
    const std::int64_t before_slots = layout.optimizer;
    state.gradients = take(layout.gradients, options.sums * state.elements, DType::F32);
    take(layout.saved, lasting, DType::F32);
    add_slots(state, layout);
    state.state_end = layout.optimizer;
    layout.saved += layout.optimizer - before_slots;
    layout.segments.push_back(std::move(state));
    add_constants(segment, layout);
  }
  return layout;
}

}  // namespace cleave::plan
