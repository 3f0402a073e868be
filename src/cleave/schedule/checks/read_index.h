#pragma once

#include <span>
#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::schedule::checks {

/// Program::reads, each once, found without going through all of them. Empty if segments form a
/// chain.
class ReadIndex {
 public:
  explicit ReadIndex(const Program& program);

  /// The reads of an edge; they name one segment that makes what it carries.
  std::span<const SegmentRead> of_edge(int edge) const;

  /// The reads of a segment by those of its own stage.
  std::span<const SegmentRead> inside(StageId stage, SegmentId from) const;

 private:
  std::vector<SegmentRead> by_edge_;
  std::vector<SegmentRead> by_maker_;  ///< those inside a stage
};

}  // namespace cleave::schedule::checks
