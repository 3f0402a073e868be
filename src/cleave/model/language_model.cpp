#include "cleave/model/language_model.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/spec/trainable.h"

namespace cleave::model {
namespace {

// One tensor has at most this many: its bytes, times the microbatches alive, still count exactly.
constexpr double kMostElements = 1e14;

void check_flow(const ModelShape& shape, const spec::Flow& flow, std::int64_t loss_blocks) {
  const double widest = static_cast<double>(std::max({3 * shape.hidden, shape.ffn, shape.vocab}));
  const double tokens = static_cast<double>(flow.sequences) * static_cast<double>(flow.sequence);
  require(widest * tokens <= kMostElements, "a microbatch of ", flow.sequences, " x ",
          flow.sequence, " tokens, each with up to ", widest,
          " values, is more than can be planned for; make train.microbatch or train.sequence "
          "smaller");
  require(flow.sequence <= shape.context, "train.sequence ", flow.sequence,
          " is longer than model.context ", shape.context,
          "; shorten the sequence or raise model.context");
  require(loss_blocks >= 1 && loss_blocks <= shape.vocab, "train.loss_blocks ", loss_blocks,
          " must be between 1 and the vocabulary ", shape.vocab);
}

/// Every block loads for itself where documents begin: this is less than sending it along.
void read_documents(Graph& graph, const spec::Flow& flow) {
  graph.inputs.push_back({spec::kDocuments, {spec::kDocuments, DType::I32, {flow.tokens()}}});
  for (int s = 0; s < std::ssize(graph.segments); ++s) {
    const auto reads = [](const LayerSpec& layer) {
      return std::ranges::count(layer.reads, spec::kDocuments, &ReadTensor::port) > 0;
    };
    if (std::ranges::any_of(graph.segments[s].layers, reads))
      graph.edges.push_back({{Graph::kData, spec::kDocuments}, {s, spec::kDocuments}});
  }
}

}  // namespace

Graph language_model(const ModelShape& shape, const spec::Flow& flow, std::int64_t loss_blocks,
                     const LanguageModelNames& names, std::vector<SegmentSpec> blocks,
                     LayerSpec norm) {
  check_flow(shape, flow, loss_blocks);
  Graph graph;
  graph.dtype = flow.dtype;
  for (const char* name : {"tokens", "targets"})
    graph.inputs.push_back({name, {name, DType::I32, {flow.tokens()}}, shape.vocab});
  graph.segments.push_back(
      {"embedding",
       {spec::embedding("embedding", flow,
                        {.vocabulary = shape.vocab,
                         .features = shape.hidden,
                         .context = names.positions.empty() ? 0 : shape.context,
                         .scale = names.token_scale,
                         .still = shape.pad_token,
                         .token_name = names.tokens,
                         .position_name = names.positions})}});
  std::ranges::move(blocks, std::back_inserter(graph.segments));
  graph.segments.push_back(
      {"head",
       {std::move(norm), spec::loss("head", flow,
                                    {.vocabulary = shape.vocab,
                                     .features = shape.hidden,
                                     .blocks = loss_blocks,
                                     .weight_name = "lm_head.weight",
                                     .tied_to = shape.tie_embeddings ? names.tokens : ""})}});
  const int head = static_cast<int>(graph.segments.size()) - 1;
  graph.edges = {{{Graph::kData, "tokens"}, {0, "x"}},
                 {{Graph::kData, "targets"}, {head, "targets"}}};
  join_in_order(graph);
  graph.results = {{"losses", {head, "y"}}};
  if (flow.documents) read_documents(graph, flow);
  if (flow.cache > 0) leave_out_backward(graph.segments);  // nothing outlives F then
  return graph;
}

}  // namespace cleave::model
