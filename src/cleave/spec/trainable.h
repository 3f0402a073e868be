#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/spec/graph.h"

namespace cleave {

/// Trains only the parameters that one of `patterns` names; all of them if there is no pattern.
/// What only their gradients would need is left out of the layers.
///
/// A pattern is a part of a tensor's name in checkpoints between dots, in which * stands for any
/// characters: "h.3" and "lm_head" are modules, "h.*.ln_1.weight" names tensors. Or it is the
/// module of segments, such as "projector". A weight that is tied is trained with the one that it
/// is tied to, an idle one never. Throws UserError for a pattern that names nothing, or only some
/// of the tensors that are computed together.
void train_only(std::span<SegmentSpec> segments, std::span<const std::string> patterns);

/// Whether a pattern, as above, names the tensor `name`.
bool pattern_names(std::string_view pattern, std::string_view name);

/// Trains nothing: every parameter keeps its values.
void freeze(std::span<SegmentSpec> segments);

/// [segment] whether it learns, or something that it reads directly or through others. Where none
/// does, no gradient is wanted. All of them if nothing learns at all: such a model only evaluates.
std::vector<bool> wants_gradients(const Graph& graph);

/// Takes out of segments that run no backward pass what only such a pass would read or do.
void leave_out_backward(std::span<SegmentSpec> segments);

/// The same of all segments of a graph that want no gradients.
void leave_out_unwanted(Graph& graph);

/// Elements that are trained; a tied weight counts once.
std::int64_t trained_count(std::span<const SegmentSpec> segments);

}  // namespace cleave
