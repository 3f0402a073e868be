#pragma once

#include <cstdint>
#include <string>

#include "cleave/spec/gelu_form.h"
#include "cleave/spec/graph.h"
#include "cleave/spec/layers.h"

namespace cleave {

/// What layers need to know that add rows to sequences, or take some of them.
struct SequenceAttributes {
  std::int64_t sequence = 0;  ///< rows of each sequence; with the one that is added

  friend bool operator==(const SequenceAttributes&, const SequenceAttributes&) = default;
};

/// Whether a result of the graph is f32 [2, samples]: its second row has 1 for each sample whose
/// class was found, else 0.
bool counts_hits(const Graph& graph);

/// What a layer of kind "pixel_shuffle" needs to know.
struct ShuffleAttributes {
  std::int64_t side = 0;  ///< rows of x along a side of an image
  std::int64_t by = 0;    ///< rows along a side of a square

  friend bool operator==(const ShuffleAttributes&, const ShuffleAttributes&) = default;
};

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

/// kind "positions": learned positions on the rows of each sequence, a parameter [sequence,
/// features]. x and y [sequences · sequence, features].
LayerSpec positions(const std::string& name, const Flow& flow, std::int64_t features,
                    const std::string& position_name);

/// kind "gelu", in another form than the tanh of layers.h.
LayerSpec gelu(const std::string& name, const Flow& flow, std::int64_t features, GeluForm form);

/// kind "first_row": the first row of each sequence. x [sequences · sequence, features] ->
/// y [sequences, features].
LayerSpec first_row(const std::string& name, const Flow& flow, std::int64_t features);

/// kind "without_first": all rows of each sequence but the first. x [sequences · sequence,
/// features] -> y [sequences · (sequence - 1), features].
LayerSpec without_first(const std::string& name, const Flow& flow, std::int64_t features);

/// kind "pixel_shuffle": each square of `by` x `by` rows becomes one row with the features of all,
/// row by row of the square. A sequence is a square image of rows. x [sequences · sequence,
/// features] -> y [sequences · sequence / by², by² · features].
LayerSpec pixel_shuffle(const std::string& name, const Flow& flow, std::int64_t features,
                        std::int64_t by);

/// kind "image_join": rows of images take their places among the embeddings of a text. x [rows,
/// features] -> y [tokens, features]: y[t] is row places[t] of x, or where x has no such row the
/// entry tokens[t] of the table. Both are read at ports of these names, i32 [tokens]. `flow` is
/// that of the text.
struct ImageJoinShape {
  std::int64_t rows = 0;
  std::int64_t vocabulary = 0;
  std::int64_t features = 0;
  std::int64_t still = -1;      ///< an entry that learns nothing by being read; -1: none
  std::string token_name = {};  ///< of the table's parameter
};
LayerSpec image_join(const std::string& name, const Flow& flow, const ImageJoinShape& shape);

/// kind "kept_rows": y = x, [rows, features]. It stands for a part of a model that is not computed,
/// whose parameters it may keep.
LayerSpec kept_rows(const std::string& name, const Flow& flow, std::int64_t features);

/// kind "add_rows": rows of images are added where they stand among those of a text. x and
/// y [tokens, features], and at port "rows" [rows, features]: y[t] = x[t] + row places[t], or x[t]
/// where there is no such row or nothing arrives. The port "places" is that of image_join.
LayerSpec add_rows(const std::string& name, const Flow& flow, std::int64_t features,
                   std::int64_t rows);

/// kind "class_loss": x [samples, classes], the logits -> y f32 [2, samples]: the cross-entropy
/// against what is read at port "labels", i32 [samples], and 1 where the label has the highest
/// logit, else 0. `flow` counts a sample as a sequence.
LayerSpec class_loss(const std::string& name, const Flow& flow, std::int64_t classes);

}  // namespace spec
}  // namespace cleave
