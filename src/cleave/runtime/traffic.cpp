#include "cleave/runtime/traffic.h"

#include <algorithm>

#include "cleave/comm/communicator.h"

namespace cleave::runtime {
namespace {

using plan::SegmentState;
using plan::ShareRun;
using schedule::Instruction;
using schedule::Op;

/// What member `rank` of `members` sends in a sum over `bytes` that all of them get.
std::int64_t of_all_reduce(std::int64_t bytes, int members, int rank) {
  const auto borders = comm::even_borders(static_cast<std::size_t>(bytes), members);
  const auto own = static_cast<std::int64_t>(borders[rank + 1] - borders[rank]);
  return bytes - own + own * (members - 1);
}

class Traffic {
 public:
  Traffic(const schedule::Program& program, std::span<const Stage* const> stages,
          std::span<const std::string> tie_names, int device)
      : program_(program),
        stages_(stages),
        tie_names_(tie_names),
        topology_(program),
        device_(device),
        replica_(topology_.replica[device]) {}

  comm::Sent count() {
    for (const Instruction& i : program_.lists[device_]) add(i);
    return sent_;
  }

 private:
  const SegmentState& state(int stage, int segment) const {
    return stages_[stage]->parameters().layout().segments[std::max(segment, 0)];
  }
  std::int64_t own(const ShareRun& run) const {
    return run.borders[replica_ + 1] - run.borders[replica_];
  }

  void add(const Instruction& i) {
    if (i.op == Op::Send) {
      const schedule::Edge& edge = program_.edges[i.edge];
      sent_.message +=
          i.direction == schedule::Direction::Forward ? edge.forward_bytes : edge.backward_bytes;
    } else if (i.op == Op::Reduce) {
      add_reduce(state(i.stage, i.segment));
    } else if (i.op == Op::Gather) {
      for (const ShareRun& run : state(i.stage, i.segment).runs) add_gather(i.stage, run);
    } else if (i.op == Op::Tie) {
      add_tie(i.edge);
    } else if (i.op == Op::Step) {
      add_updated();
    }
  }

  void add_reduce(const SegmentState& segment) {
    for (const ShareRun& run : segment.runs)
      sent_.reduce += (run.end() - run.begin() - own(run)) * size_of(DType::F32);
    if (segment.runs.empty())
      sent_.reduce += of_all_reduce(segment.gradient_bytes(), program_.replicas, replica_);
  }

  void add_gather(int stage, const ShareRun& run) {
    sent_.gather += own(run) * (program_.replicas - 1) *
                    size_of(stages_[stage]->parameters().layout().options.dtype);
  }

  /// Replicas send each other what they updated, unless it is gathered for each use.
  void add_updated() {
    for (const int stage : topology_.stages[device_]) {
      const plan::StateLayout& layout = stages_[stage]->parameters().layout();
      if (layout.shares_values()) continue;
      for (const SegmentState& segment : layout.segments) {
        for (const ShareRun& run : segment.runs)
          if (!run.borrowed) add_gather(stage, run);
      }
    }
  }

  void add_tie(int index) {
    const schedule::Tie& tie = program_.ties[index];
    const int second = program_.placement[tie.second][replica_];
    if (second == program_.placement[tie.first][replica_]) return;
    // The later use comes first in the pair.
    sent_.reduce +=
        of_all_reduce(tied_bytes(tie.second, tie_names_[index]), 2, device_ == second ? 0 : 1);
  }

  /// Of the weight that `stage` has tied to `name`: all of it, or the replica's share.
  std::int64_t tied_bytes(int stage, const std::string& name) const {
    for (const SegmentState& segment : stages_[stage]->parameters().layout().segments) {
      for (const plan::ParameterPlace& place : segment.parameters) {
        if (place.spec->tied_to != name) continue;
        std::int64_t begin = place.at;
        std::int64_t end = place.at + place.spec->elements();
        for (const ShareRun& run : segment.runs) {
          if (run.begin() != place.at) continue;
          begin = std::clamp(run.borders[replica_], begin, end);
          end = std::clamp(run.borders[replica_ + 1], begin, end);
        }
        return (end - begin) * size_of(DType::F32);
      }
    }
    return 0;
  }

  const schedule::Program& program_;
  std::span<const Stage* const> stages_;
  std::span<const std::string> tie_names_;
  schedule::Topology topology_;
  int device_;
  int replica_;
  comm::Sent sent_;
};

}  // namespace

comm::Sent planned_traffic(const schedule::Program& program, std::span<const Stage* const> stages,
                           std::span<const std::string> tie_names, int device) {
  return Traffic(program, stages, tie_names, device).count();
}

}  // namespace cleave::runtime
