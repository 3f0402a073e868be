#pragma once

#include <cstdint>
#include <string>

#include "cleave/spec/gelu_form.h"
#include "cleave/spec/graph.h"
#include "cleave/spec/layers.h"

namespace cleave {

/// Of layers that add rows to sequences, or take some of them.
struct SequenceAttributes {
  std::int64_t sequence = 0;  ///< rows of each sequence; with the one that is added

  friend bool operator==(const SequenceAttributes&, const SequenceAttributes&) = default;
};

/// Whether a result of the graph is f32 [2, samples]: its second row has 1 for each sample whose
/// class was found, else 0.
bool counts_hits(const Graph& graph);

namespace spec {

// Layers of models that read images, as those in layers.h. A sequence is the patches of an image.

/// kind "class_token": a learned row before the rows of each sequence, and learned positions on all
/// of them. x [sequences · (sequence - 1), features] -> y [sequences · sequence, features], with
/// the `sequence` of the flow.
struct ClassTokenShape {
  std::int64_t features = 0;
  std::string token_name = {};     ///< of the row's parameter [1, features]
  std::string position_name = {};  ///< of the positions' parameter [sequence, features]
};
LayerSpec class_token(const std::string& name, const Flow& flow, const ClassTokenShape& shape);

/// kind "gelu", in another form than the tanh of layers.h.
LayerSpec gelu(const std::string& name, const Flow& flow, std::int64_t features, GeluForm form);

/// kind "first_row": the first row of each sequence. x [sequences · sequence, features] ->
/// y [sequences, features].
LayerSpec first_row(const std::string& name, const Flow& flow, std::int64_t features);

/// kind "class_loss": x [samples, classes], the logits -> y f32 [2, samples]: the cross-entropy
/// against what is read at port "labels", i32 [samples], and 1 where the label has the highest
/// logit, else 0. `flow` counts a sample as a sequence.
LayerSpec class_loss(const std::string& name, const Flow& flow, std::int64_t classes);

}  // namespace spec
}  // namespace cleave
