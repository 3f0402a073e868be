#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/spec/layer_spec.h"

namespace cleave {

/// The model as data: segments, the edges between their ports, named inputs that are loaded for
/// every microbatch, and named results.
///
/// The first layer of a segment reads the port "x", its last layer writes the port "y"; further
/// ports are those that its layers read (LayerSpec::reads). A port reads the data, or the y of any
/// segment before its own; several ports may read one y, and their gradients are then added in the
/// order of the edges. A model is plain data: build one, or edit one that a family made.
struct Graph {
  /// An end of an edge: a port of a segment, or an input of the graph.
  struct Port {
    int segment = kData;
    std::string name;  ///< of the port; of the input where the segment is kData

    friend bool operator==(const Port&, const Port&) = default;
  };
  static constexpr int kData = -1;

  struct Edge {
    Port from;
    Port to;

    friend bool operator==(const Edge&, const Edge&) = default;
  };

  /// What is loaded for every microbatch, by name.
  struct Input {
    std::string name;
    TensorSpec tensor;
    std::int64_t below = 0;  ///< i32: what ids are less than
    bool optional = false;   ///< samples may lack it

    friend bool operator==(const Input&, const Input&) = default;
  };

  /// What the model gives for every microbatch: the losses of its samples.
  struct Result {
    std::string name;
    Port from;

    friend bool operator==(const Result&, const Result&) = default;
  };

  DType dtype = DType::F32;  ///< of activations and of the weights that layers compute with
  std::vector<Input> inputs;
  std::vector<SegmentSpec> segments;
  std::vector<Edge> edges;
  std::vector<Result> results;

  friend bool operator==(const Graph&, const Graph&) = default;
};

/// Joins every segment to the one before it: y to x.
void join_in_order(Graph& graph);

/// Throws UserError, naming the edge or port, unless every port that is read is written once, by a
/// tensor of the same shape and format, and every parameter that is tied has its owner before it.
void check(const Graph& graph);

/// Whether the x of a segment comes from another segment; otherwise it comes from the data.
bool x_arrives(const Graph& graph, int segment);
/// Whether another segment reads the y of a segment; otherwise it is a result.
bool y_leaves(const Graph& graph, int segment);

/// The segment whose y a port reads; Graph::kData if it is loaded from the data.
int source_of(const Graph& graph, int segment, const std::string& port);

/// The ports that read the y of a segment, in the order of the edges.
std::vector<Graph::Port> readers_of(const Graph& graph, int segment);

/// The name of the input that is loaded into a port; null if another segment writes it.
const std::string* input_at(const Graph& graph, int segment, const std::string& port);

/// [segment] true: it reads nothing but optional inputs, be it through other segments, and has no
/// part in microbatches that lack them. Nobody is optional where a segment that is not reads one
/// that is and could not do without.
std::vector<bool> optional_segments(const Graph& graph);

/// How many losses a microbatch gives: one for each token or other sample.
std::int64_t loss_count(const Graph& graph);

/// The segments that users count as the layers of the model.
std::int64_t block_count(const Graph& graph);

/// Counts a tied weight once.
std::int64_t parameter_count(const Graph& graph);

std::int64_t flops(const Graph& graph);

}  // namespace cleave
