#include "cleave/schedule/passes/pass.h"

namespace cleave::schedule {
namespace {

Instruction piece(Instruction whole, int segment) {
  whole.segment = segment;
  return whole;
}

/// Splits one device's list. F runs the segments first to last, everything backward last to first.
class Splitter {
 public:
  Splitter(const Program& program, const LowerOptions& options)
      : program_(program), options_(options), topology_(program) {}

  std::vector<Instruction> split(const std::vector<Instruction>& list) {
    out_.clear();
    out_.reserve(list.size() * 2);
    for (const Instruction& i : list) add(i);
    return std::move(out_);
  }

 private:
  void add(const Instruction& i) {
    const int segments = is_compute(i.op) && splits(i.stage) ? program_.segments[i.stage] : 1;
    if (segments == 1) {
      out_.push_back(i);
    } else if (i.op == Op::Forward) {
      for (int s = 0; s < segments; ++s) out_.push_back(piece(i, s));
    } else if (i.op == Op::Recompute) {
      // Only the last segment is recomputed ahead; the others follow between the pieces of I, so
      // that one segment's activations are alive at a time.
      const SegmentId last{segments - 1};
      if (recomputes(StageId{i.stage}, last)) out_.push_back(piece(i, last));
      recomputed_.push_back(i);
    } else {
      const bool recompute = topology_.acts_as(i) != Op::BackwardWeight && take_recomputed(i);
      for (int s = segments - 1; s >= 0; --s) {
        if (recompute && s < segments - 1 && recomputes(StageId{i.stage}, SegmentId{s}))
          out_.push_back(
              {.op = Op::Recompute, .stage = i.stage, .segment = s, .microbatch = i.microbatch});
        out_.push_back(piece(i, s));
      }
    }
  }

  /// A segment that runs once per step must be told from the others at any grain.
  bool splits(int stage) const {
    return options_.grain == Grain::Segment || collects(program_, stage);
  }

  /// True if an R of the stage and microbatch of `i` came before it.
  bool take_recomputed(const Instruction& i) {
    return std::erase_if(recomputed_, [&](const Instruction& r) {
             return r.stage == i.stage && r.microbatch == i.microbatch;
           }) > 0;
  }

  bool recomputes(StageId stage, SegmentId segment) const {
    return options_.keeping.empty() || !options_.keeping[stage][segment];
  }

  const Program& program_;
  const LowerOptions& options_;
  Topology topology_;
  std::vector<Instruction> recomputed_;  ///< R whose I is still to come
  std::vector<Instruction> out_;
};

}  // namespace

Program split_segments(Program program, const LowerOptions& options) {
  if (options.grain == Grain::Stage && program.collecting.empty()) return program;
  Splitter splitter(program, options);
  for (auto& list : program.lists) list = splitter.split(list);
  return program;
}

}  // namespace cleave::schedule
