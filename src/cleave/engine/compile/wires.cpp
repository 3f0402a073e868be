#include "cleave/engine/compile/wires.h"

#include <algorithm>
#include <map>

#include "cleave/base/check.h"
#include "cleave/spec/trainable.h"

namespace cleave::engine {

schedule::Op pass_of(Until until) {
  return until == Until::Forward ? schedule::Op::Forward
         : until == Until::Input ? schedule::Op::BackwardInput
                                 : schedule::Op::BackwardWeight;
}

namespace {

/// Until when a segment reads what comes in at a port.
Until until_of(const SegmentSpec& segment, const std::string& port) {
  if (port == "x") return segment.layers.front().x_until;
  Until until = Until::Forward;
  for (const LayerSpec& layer : segment.layers) {
    for (const ReadTensor& read : layer.reads)
      if (read.port == port) until = std::max(until, read.until);
  }
  return until;
}

}  // namespace

Wiring::Wiring(const Graph& graph, const std::vector<std::int64_t>& sizes) {
  for (std::size_t stage = 0; stage < sizes.size(); ++stage) {
    first_.push_back(static_cast<int>(stage_of_.size()));
    stage_of_.insert(stage_of_.end(), static_cast<std::size_t>(sizes[stage]),
                     static_cast<int>(stage));
  }
  int edge = 0;
  for (int s = 0; s < std::ssize(graph.segments); ++s) {
    std::map<int, std::vector<Graph::Port>> by_stage;
    for (const Graph::Port& reader : readers_of(graph, s))
      by_stage[stage_of_[reader.segment]].push_back(reader);
    for (auto& [stage, readers] : by_stage)
      wires_.push_back({s, stage, stage == stage_of_[s] ? -1 : edge++, std::move(readers)});
  }
}

std::vector<schedule::Edge> Wiring::edges() const {
  std::vector<schedule::Edge> edges;
  for (const Wire& wire : wires_)
    if (wire.edge >= 0) edges.push_back({.from = stage_of_[wire.from], .to = wire.to});
  return edges;
}

bool Wiring::is_chain_of_stages() const {
  const std::vector<schedule::Edge> all = edges();
  std::vector<bool> joined(first_.size(), false);
  for (const schedule::Edge& edge : all) {
    if (edge.to != edge.from + 1) return false;
    joined[edge.to] = true;
  }
  return std::ranges::count(joined, false) == 1;
}

std::vector<schedule::SegmentRead> Wiring::reads(const Graph& graph) const {
  std::vector<schedule::SegmentRead> reads;
  bool chain = true;
  for (const Wire& wire : wires_) {
    for (const Graph::Port& reader : wire.readers) {
      chain = chain && reader.segment == wire.from + 1 && reader.name == "x";
      reads.push_back({.stage = wire.to,
                       .segment = number_of(reader.segment),
                       .from = number_of(wire.from),
                       .edge = wire.edge,
                       .until = pass_of(until_of(graph.segments[reader.segment], reader.name))});
    }
  }
  if (chain) return {};
  return reads;
}

const Wire& Wiring::wire_to(SegmentId from, StageId stage) const {
  const auto found = std::ranges::find_if(
      wires_, [&](const Wire& wire) { return wire.from == from && wire.to == stage; });
  CLEAVE_CHECK(found != wires_.end(), "segment ", from, " is not read in stage ", stage);
  return *found;
}

PortSource Wiring::source(const Graph& graph, int from, const Graph::Port& reader) const {
  const Wire& wire = wire_to(SegmentId{from}, StageId{stage_of_[reader.segment]});
  const auto place = std::ranges::find(wire.readers, reader) - wire.readers.begin();
  return {.segment = number_of(from),
          .edge = wire.edge,
          .gradient_offset = place * graph.segments[from].layers.back().y.gradient_bytes()};
}

SegmentPorts Wiring::ports(const Graph& graph, int segment) const {
  const std::vector<bool> wants = wants_gradients(graph);
  const auto& layers = graph.segments[segment].layers;
  SegmentPorts ports;
  const int x = source_of(graph, segment, "x");
  ports.borders = {.x_arrives = x != Graph::kData,
                   .y_leaves = y_leaves(graph, segment),
                   .backward = wants[segment],
                   .dx_leaves = x == Graph::kData || wants[x]};
  if (x != Graph::kData) ports.x = source(graph, x, {segment, "x"});
  if (x == Graph::kData) ports.inputs.push_back({*input_at(graph, segment, "x")});
  for (int i = 0; i < std::ssize(layers); ++i) {
    for (int k = 0; k < std::ssize(layers[i].reads); ++k) {
      const std::string& port = layers[i].reads[k].port;
      const int from = source_of(graph, segment, port);
      if (from == Graph::kData) {
        ports.inputs.push_back({*input_at(graph, segment, port), i, k});
        ports.reads.emplace_back();
        continue;
      }
      ports.reads.push_back(source(graph, from, {segment, port}));
      ports.reads.back()->wants_gradient = wants[from];
    }
  }
  for (const Wire& wire : wires_)
    if (wire.from == segment) ports.targets.push_back(wire.edge);
  for (const Graph::Port& reader : readers_of(graph, segment))
    ports.gradients.push_back(source(graph, segment, reader));
  return ports;
}

}  // namespace cleave::engine
