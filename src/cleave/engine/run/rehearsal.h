#pragma once

#include <map>
#include <utility>
#include <vector>

#include "cleave/plan/time/costs.h"
#include "cleave/schedule/program.h"

namespace cleave::engine {

/// Repeated measurements of one thing.
class Samples {
 public:
  void add(double value) { values_.push_back(value); }
  bool empty() const { return values_.empty(); }
  std::size_t count() const { return values_.size(); }

  /// The value that this share of them does not exceed, by the line between the two next to it. The
  /// middle one, of which what is disturbed now and then is no part, is at 0.5. 0 of nothing.
  double quantile(double share) const;

 private:
  std::vector<double> values_;
};

/// What a device takes for its part of a step, in seconds, measured piece by piece.
struct Rehearsal {
  /// Something that several devices do together.
  struct SharedWork {
    Samples seconds;
    Samples work;  ///< of it, what this device's thread computed and copied
  };

  struct Stage {
    Samples forward;
    Samples input;
    Samples weight;
    Samples backward;
    Samples recompute;
    SharedWork reduce;  ///< all segments, one after another
    SharedWork gather;
    SharedWork collect;
  };

  explicit Rehearsal(const schedule::Program& program)
      : stages(program.stages), ties(program.ties.size()) {}

  static Samples& of(schedule::Op op, Stage& stage);

  /// That quantile of everything. Zeros for a stage of another device.
  plan::StageCosts costs(int stage, double share) const;
  /// The same of a segment's passes.
  plan::StageCosts costs_of_segment(StageId stage, SegmentId segment, double share) const;

  std::vector<Stage> stages;
  std::map<std::pair<int, int>, Stage> segments;  ///< of (stage, segment): its passes
  std::vector<Samples> ties;
  Samples norm;  ///< its own share: without waiting for the others
  Samples step;
  Samples outside;  ///< OUT and IN, per byte
};

}  // namespace cleave::engine
