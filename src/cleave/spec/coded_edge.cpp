#include "cleave/spec/coded_edge.h"

#include "cleave/base/check.h"
#include "cleave/base/codec.h"

namespace cleave::spec {
namespace {

/// A tensor in coded form, as whole words.
Shape words(const std::string& codec, const TensorSpec& tensor) {
  return {(coded_bytes(codec, tensor.dtype, tensor.shape.elements()) + 3) / 4};
}

TensorSpec coded(const TensorSpec& tensor, const EdgeCodecs& codecs) {
  return {.name = tensor.name + ".coded",
          .dtype = DType::I32,
          .shape = words(codecs.forward, tensor),
          .coded_gradient = words(codecs.backward, tensor)};
}

void check_alone(const Graph& graph, int segment) {
  for (const Graph::Edge& edge : graph.edges) {
    const bool crosses =
        edge.from.segment >= 0 && edge.from.segment <= segment && edge.to.segment > segment;
    const bool meant =
        edge.from.segment == segment && edge.to.segment == segment + 1 && edge.to.name == "x";
    require(!crosses || meant, "edge.codec codes one tensor at a cut, and segment ",
            graph.segments[static_cast<std::size_t>(edge.to.segment)].name, " reads ",
            graph.segments[static_cast<std::size_t>(edge.from.segment)].name,
            " across it as well; cut elsewhere, or leave edge.codec out");
  }
}

}  // namespace

std::int64_t coded_bytes(const std::string& codec, DType dtype, std::int64_t elements) {
  if (codec == "none") return elements * size_of(dtype);
  const Codec* const found = find_codec(codec);
  CLEAVE_CHECK(found != nullptr && found->block > 0, "codec ", codec, " of an edge");
  return found->bytes(elements);
}

void code_edge(Graph& graph, int segment, const CodedAttributes& how) {
  CLEAVE_CHECK(segment >= 0 && segment + 1 < std::ssize(graph.segments), "segment ", segment);
  check_alone(graph, segment);
  SegmentSpec& from = graph.segments[static_cast<std::size_t>(segment)];
  SegmentSpec& to = graph.segments[static_cast<std::size_t>(segment) + 1];
  const TensorSpec plain = from.layers.back().y;

  LayerSpec encode;
  encode.kind = "encode";
  encode.name = how.edge + ".encode";
  encode.x = plain;
  encode.y = coded(plain, how.codecs);
  encode.attributes = how;
  from.layers.push_back(std::move(encode));

  LayerSpec decode;
  decode.kind = "decode";
  decode.name = how.edge + ".decode";
  decode.x = coded(plain, how.codecs);
  decode.y = to.layers.front().x;
  decode.attributes = how;
  for (LayerSpec& layer : to.layers)
    if (layer.skip >= 0) ++layer.skip;
  to.layers.insert(to.layers.begin(), std::move(decode));
}

}  // namespace cleave::spec
