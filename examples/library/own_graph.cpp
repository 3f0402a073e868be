// A model of your own: a graph of layer specs, and a family that makes it. From then on its name
// works in model.kind. Nothing in it says how it is cut over devices.
//
// The model has no attention: each block is norm, linear, GELU, linear, and a residual connection.

#include "train_with.h"

#include "cleave/model/add_family.h"
#include "cleave/spec/layers.h"

namespace {

using cleave::Graph;
using cleave::ModelShape;
using cleave::SegmentSpec;
using cleave::spec::Flow;

SegmentSpec block(const ModelShape& shape, const Flow& flow, std::int64_t index) {
  namespace spec = cleave::spec;
  const std::string name = "block." + std::to_string(index) + ".";
  return {.name = name,
          .layers = {spec::rmsnorm(name + "norm", flow, shape.hidden, 1e-5f),
                     spec::linear(name + "in", flow, {.in = shape.hidden, .out = shape.ffn}),
                     spec::gelu(name + "gelu", flow, shape.ffn),
                     spec::linear(name + "out", flow, {.in = shape.ffn, .out = shape.hidden}),
                     spec::residual(name + "residual", flow, shape.hidden, 0)},
          .block = true};
}

Graph build(const ModelShape& shape, const Flow& flow, std::int64_t loss_blocks) {
  namespace spec = cleave::spec;
  Graph graph{.dtype = flow.dtype};
  for (const char* name : {"tokens", "targets"})
    graph.inputs.push_back({name, {name, cleave::DType::I32, {flow.tokens()}}, shape.vocab});
  graph.segments.push_back(
      {"embedding",
       {spec::embedding(
           "embedding", flow,
           {.vocabulary = shape.vocab, .features = shape.hidden, .token_name = "tokens.weight"})}});
  for (std::int64_t i = 0; i < shape.layers; ++i) graph.segments.push_back(block(shape, flow, i));
  graph.segments.push_back({"head",
                            {spec::rmsnorm("norm", flow, shape.hidden, 1e-5f),
                             spec::loss("head", flow,
                                        {.vocabulary = shape.vocab,
                                         .features = shape.hidden,
                                         .blocks = loss_blocks,
                                         .weight_name = "head.weight"})}});
  // y of each segment to x of the next; tokens into the first, targets into the last.
  const int head = static_cast<int>(graph.segments.size()) - 1;
  graph.edges = {{{Graph::kData, "tokens"}, {0, "x"}},
                 {{Graph::kData, "targets"}, {head, "targets"}}};
  cleave::join_in_order(graph);
  graph.results = {{"losses", {head, "y"}}};
  return graph;
}

constexpr cleave::model::Family kPlain = {
    .name = "plain", .build = build, .default_ffn = [](std::int64_t hidden) { return 2 * hidden; }};

}  // namespace

int main() {
  cleave::model::add_family(kPlain);

  const auto one = example::train_with({"model.kind=plain"});
  const auto two = example::train_with({"model.kind=plain", "parallel.pipeline=2"});
  return example::check(one, two);
}
