#pragma once

#include <cstdint>
#include <vector>

#include "cleave/engine/stage/stage.h"
#include "cleave/schedule/program.h"
#include "cleave/spec/graph.h"

namespace cleave::engine {

/// The pass that reads a tensor last.
schedule::Op pass_of(Until until);

/// The y of a segment on its way to one stage: one message, however many segments there read it.
struct Wire {
  int from = 0;                      ///< segment of the model
  int to = 0;                        ///< stage
  int edge = -1;                     ///< of the program; -1: inside the stage
  std::vector<Graph::Port> readers;  ///< in the order of the graph's edges
};

/// How the segments of a model are joined once they are dealt out to stages.
class Wiring {
 public:
  /// `sizes` [stage]: how many segments each has.
  Wiring(const Graph& graph, const std::vector<std::int64_t>& sizes);

  const std::vector<Wire>& wires() const { return wires_; }

  /// Edges between stages, in the order of their numbers, without bytes.
  std::vector<schedule::Edge> edges() const;

  /// Whether every stage reads the one before it alone.
  bool is_chain_of_stages() const;

  /// Who reads what, by the specs of `graph`; empty if segments and stages form a chain.
  std::vector<schedule::SegmentRead> reads(const Graph& graph) const;

  /// The ports of a segment of `graph`, which is the model or a share of it.
  SegmentPorts ports(const Graph& graph, int segment) const;

  int stage_of(int segment) const { return stage_of_[segment]; }
  /// Counted within its stage.
  int number_of(int segment) const { return segment - first_[stage_of_[segment]]; }

 private:
  const Wire& wire_to(SegmentId from, StageId stage) const;
  PortSource source(const Graph& graph, int from, const Graph::Port& reader) const;

  std::vector<int> stage_of_;  ///< [segment]
  std::vector<int> first_;     ///< [stage] its first segment
  std::vector<Wire> wires_;    ///< by segment, then by stage
};

}  // namespace cleave::engine
