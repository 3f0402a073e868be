#include "cleave/spec/graph.h"

#include <algorithm>
#include <map>

#include "cleave/base/check.h"

namespace cleave {
namespace {

const Graph::Edge* edge_to(const Graph& graph, int segment, const std::string& port) {
  const auto found = std::ranges::find(graph.edges, Graph::Port{segment, port}, &Graph::Edge::to);
  return found == graph.edges.end() ? nullptr : &*found;
}

std::string text_of(const Graph& graph, const Graph::Port& port) {
  if (port.segment == Graph::kData) return "input \"" + port.name + "\"";
  const bool known = port.segment >= 0 && port.segment < std::ssize(graph.segments);
  return "port \"" + port.name + "\" of segment " +
         (known ? "\"" + graph.segments[port.segment].name + "\"" : std::to_string(port.segment));
}

/// The tensor that leaves at `from`.
const TensorSpec& tensor_at(const Graph& graph, const Graph::Port& from) {
  if (from.segment == Graph::kData) {
    const auto input = std::ranges::find(graph.inputs, from.name, &Graph::Input::name);
    require(input != graph.inputs.end(), "the graph has no ", text_of(graph, from),
            "; add it to its inputs");
    return input->tensor;
  }
  require(from.segment >= 0 && from.segment < std::ssize(graph.segments) && from.name == "y",
          "the graph has nothing at ", text_of(graph, from), " to read; segments write port \"y\"");
  return graph.segments[from.segment].layers.back().y;
}

bool reads_port(const SegmentSpec& segment, const std::string& port) {
  return port == "x" || std::ranges::any_of(segment.layers, [&](const LayerSpec& layer) {
           return std::ranges::find(layer.reads, port, &ReadTensor::port) != layer.reads.end();
         });
}

/// A segment counts every edge as a reader of its y, and adds up what all of them bring back.
void check_edge(const Graph& graph, const Graph::Edge& edge) {
  const Graph::Port& to = edge.to;
  const bool known = to.segment >= 0 && to.segment < std::ssize(graph.segments);
  require(known && reads_port(graph.segments[to.segment], to.name), "an edge leads from ",
          text_of(graph, edge.from), " to ", text_of(graph, to),
          ", which no layer reads; leave the edge out, or name the port in LayerSpec::reads");
}

/// `tensor` is what is read at `to`; layers must find what their specs say.
void check_port(const Graph& graph, const Graph::Port& to, const TensorSpec& tensor) {
  const auto count = std::ranges::count(graph.edges, to, &Graph::Edge::to);
  require(count == 1, count, " edges lead to ", text_of(graph, to), "; give it exactly one");
  const Graph::Edge& edge = *edge_to(graph, to.segment, to.name);
  const TensorSpec& source = tensor_at(graph, edge.from);
  require(source.shape == tensor.shape && source.dtype == tensor.dtype, text_of(graph, edge.from),
          " is ", to_string(source.dtype), " ", to_string(source.shape), ", but ",
          text_of(graph, to), " reads ", to_string(tensor.dtype), " ", to_string(tensor.shape));
  require(
      edge.from.segment < to.segment, text_of(graph, to), " reads ", text_of(graph, edge.from),
      ", which does not come before it; write segments in an order in which data flows forward");
}

/// What a layer reads of another segment must get its gradient.
void check_read(const Graph& graph, int segment, const LayerSpec& layer, const ReadTensor& read) {
  const Graph::Port port{segment, read.port};
  check_port(graph, port, read.tensor);
  require(read.gradient || source_of(graph, segment, read.port) == Graph::kData, "layer ",
          layer.name, " reads another segment at ", text_of(graph, port),
          ", and makes no gradient for it; set ReadTensor::gradient and write it in I, or load it "
          "from the data");
  const auto same = [&](const LayerSpec& other) {
    return std::ranges::count(other.reads, read.port, &ReadTensor::port);
  };
  std::int64_t count = 0;
  for (const LayerSpec& other : graph.segments[segment].layers) count += same(other);
  require(!read.gradient || count == 1, count, " tensors are read at ", text_of(graph, port),
          "; give each a port of its own, because each makes a gradient");
}

void check_skip(const LayerSpec& layer, const LayerSpec& skipped) {
  const TensorSpec& x = skipped.x;
  require(x.shape == layer.y.shape && x.dtype == layer.y.dtype, "layer ", layer.name, " adds ",
          skipped.name, "'s x, which is ", to_string(x.dtype), " ", to_string(x.shape), ", to ",
          to_string(layer.y.dtype), " ", to_string(layer.y.shape));
}

void check_segment(const Graph& graph, int index) {
  const SegmentSpec& segment = graph.segments[index];
  require(!segment.layers.empty(), "segment \"", segment.name, "\" has no layers");
  check_port(graph, {index, "x"}, segment.layers.front().x);
  const TensorSpec* previous = nullptr;
  for (int i = 0; i < std::ssize(segment.layers); ++i) {
    const LayerSpec& layer = segment.layers[i];
    require(previous == nullptr ||
                (previous->shape == layer.x.shape && previous->dtype == layer.x.dtype),
            "layer ", layer.name, " reads ", to_string(layer.x.shape),
            ", but the layer before it writes ",
            previous == nullptr ? "" : to_string(previous->shape));
    require(layer.skip < i, "layer ", layer.name, " adds the x of layer ", layer.skip,
            " of its segment, which does not come before it");
    if (layer.skip >= 0) check_skip(layer, segment.layers[layer.skip]);
    for (const ReadTensor& read : layer.reads) check_read(graph, index, layer, read);
    previous = &layer.y;
  }
}

/// Once every port is known to be sound.
void check_ends(const Graph& graph, int index) {
  const SegmentSpec& segment = graph.segments[index];
  const bool leaves = y_leaves(graph, index);
  const Graph::Port y{index, "y"};
  const bool is_result =
      std::ranges::find(graph.results, y, &Graph::Result::from) != graph.results.end();
  require(leaves != is_result, text_of(graph, y),
          leaves ? " is read and a result as well" : " is neither read nor a result",
          "; it must be one of the two");
  require(!leaves || segment.layers.back().y_until == Until::Forward, "layer ",
          segment.layers.back().name,
          " ends a segment, so it cannot keep its y for its own backward");
  require(!segment.block || (leaves && x_arrives(graph, index)), "segment \"", segment.name,
          "\" reads the data or gives a result, so it cannot be one of the model's blocks");
}

void check_tie(const ParameterSpec& parameter, const Shape& owner) {
  require(parameter.shape == owner, "parameter ", parameter.name, " is ",
          to_string(parameter.shape), " and tied to ", parameter.tied_to, ", which is ",
          to_string(owner), "; parameters that share their values have one shape");
}

void check_ties(const Graph& graph) {
  std::map<std::string, Shape, std::less<>> owners;
  for (const SegmentSpec& segment : graph.segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        require(owners.emplace(parameter.name, parameter.shape).second,
                "two parameters are called ", parameter.name);
        if (parameter.tied_to.empty()) continue;
        const auto owner = owners.find(parameter.tied_to);
        require(owner != owners.end() && parameter.tied_to != parameter.name, "parameter ",
                parameter.name, " is tied to ", parameter.tied_to,
                ", and no layer before it has that");
        check_tie(parameter, owner->second);
      }
    }
  }
}

}  // namespace

void join_in_order(Graph& graph) {
  for (int s = 1; s < std::ssize(graph.segments); ++s)
    graph.edges.push_back({{s - 1, "y"}, {s, "x"}});
}

void check(const Graph& graph) {
  require(!graph.segments.empty(), "the graph has no segments");
  for (const Graph::Edge& edge : graph.edges) check_edge(graph, edge);
  for (int s = 0; s < std::ssize(graph.segments); ++s) check_segment(graph, s);
  for (int s = 0; s < std::ssize(graph.segments); ++s) check_ends(graph, s);
  for (const Graph::Result& result : graph.results) {
    require(result.from.segment != Graph::kData, "result \"", result.name, "\" is ",
            text_of(graph, result.from), "; results are what segments write");
    const TensorSpec& losses = tensor_at(graph, result.from);
    const bool hits = losses.shape.rank() == 2 && losses.shape[0] == 2;
    require(losses.dtype == DType::F32 && (losses.shape.rank() == 1 || hits), "result \"",
            result.name, "\" is ", to_string(losses.dtype), " ", to_string(losses.shape),
            "; losses are f32, one for each sample");
  }
  check_ties(graph);
}

bool x_arrives(const Graph& graph, int segment) {
  const Graph::Edge* edge = edge_to(graph, segment, "x");
  return edge != nullptr && edge->from.segment != Graph::kData;
}

bool y_leaves(const Graph& graph, int segment) {
  return std::ranges::any_of(graph.edges,
                             [&](const Graph::Edge& edge) { return edge.from.segment == segment; });
}

int source_of(const Graph& graph, int segment, const std::string& port) {
  const Graph::Edge* edge = edge_to(graph, segment, port);
  return edge == nullptr ? Graph::kData : edge->from.segment;
}

std::vector<Graph::Port> readers_of(const Graph& graph, int segment) {
  std::vector<Graph::Port> readers;
  for (const Graph::Edge& edge : graph.edges)
    if (edge.from.segment == segment) readers.push_back(edge.to);
  return readers;
}

const std::string* input_at(const Graph& graph, int segment, const std::string& port) {
  const Graph::Edge* edge = edge_to(graph, segment, port);
  return edge != nullptr && edge->from.segment == Graph::kData ? &edge->from.name : nullptr;
}

namespace {

/// Whether a segment runs although nothing arrives at one of its ports.
bool does_without(const SegmentSpec& segment, const std::string& port) {
  if (port == "x") return segment.layers.front().does_without_x;
  for (const LayerSpec& layer : segment.layers) {
    for (const ReadTensor& read : layer.reads)
      if (read.port == port && !read.may_lack) return false;
  }
  return true;
}

}  // namespace

std::vector<bool> optional_segments(const Graph& graph) {
  std::vector<bool> optional(graph.segments.size(), true);
  const auto is_optional = [&](const Graph::Port& from) {
    if (from.segment != Graph::kData) return static_cast<bool>(optional[from.segment]);
    return std::ranges::find(graph.inputs, from.name, &Graph::Input::name)->optional;
  };
  for (int s = 0; s < std::ssize(graph.segments); ++s)
    for (const Graph::Edge& edge : graph.edges)
      if (edge.to.segment == s && !is_optional(edge.from)) optional[s] = false;
  for (const Graph::Edge& edge : graph.edges) {
    if (edge.from.segment == Graph::kData || !optional[edge.from.segment]) continue;
    const bool can =
        optional[edge.to.segment] || does_without(graph.segments[edge.to.segment], edge.to.name);
    if (!can) return std::vector<bool>(graph.segments.size(), false);
  }
  return optional;
}

std::int64_t loss_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const Graph::Result& result : graph.results) {
    const Shape& shape = tensor_at(graph, result.from).shape;
    count += shape[shape.rank() - 1];
  }
  return count;
}

std::int64_t block_count(const Graph& graph) {
  return std::ranges::count(graph.segments, true, &SegmentSpec::block);
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const SegmentSpec& segment : graph.segments) count += parameter_count(segment);
  return count;
}

std::int64_t flops(const Graph& graph) {
  std::int64_t count = 0;
  for (const SegmentSpec& segment : graph.segments) count += flops(segment);
  return count;
}

}  // namespace cleave
