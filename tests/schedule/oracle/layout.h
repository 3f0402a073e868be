#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::schedule::oracle {

/// Something that must not happen has happened.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void demand(bool ok, const char* what) {
  if (!ok) throw Fault(what);
}

/// What is fixed before the run: who holds what, which instructions and buffers there are. Throws
/// Fault on a header that describes no pipeline and on a buffer that belongs to nothing.
class Layout {
 public:
  explicit Layout(const Program& program);

  const Program& program;

  bool holds(int device, int stage) const;
  /// The first replica that a device works for; what it has once is counted there.
  int replica(int device) const { return replica_[device]; }
  const std::vector<int>& stages(int device) const { return stages_[device]; }
  bool same_device(const Edge& edge, int replica) const;

  /// Microbatches are cells of one row over all replicas: those of replica 0, then of replica 1. A
  /// device has a run of them and counts from its own beginning.
  int cell(int device, int microbatch) const {
    return replica_[device] * program.microbatches + microbatch;
  }
  int cells(int device) const { return count_[device] * program.microbatches; }
  int replica_of_cell(int cell) const { return cell / program.microbatches; }
  /// Whether a replica is the first of the device that holds the stage for it.
  bool leads(int stage, int r) const { return replica_[program.placement[stage][r]] == r; }

  /// An instruction of `op` that covers the segment (-1: any segment at all) is in the list.
  bool has(int device, Op op, int stage, int segment, int microbatch) const;
  bool has_norm() const { return has_norm_; }

  /// What the header says of a stage, spelled out again.
  bool sharded(int stage) const;    ///< its parameters are gathered for each use
  bool refreshed(int stage) const;  ///< replicas update shares and exchange them
  bool runs_input(int stage) const;
  bool runs_weight(int stage) const;
  bool present(int stage, int replica, int microbatch) const {
    return !absent_.contains({stage, microbatch, Absence::kEveryReplica}) &&
           !absent_.contains({stage, microbatch, replica});
  }

  /// No message reaches the device's memory.
  bool through_host(int device) const {
    return std::ranges::count(program.through_host, device) > 0;
  }

  /// The last segment of the stage runs once per step; instructions and buffers call it so.
  bool collects(int stage) const { return collecting_.contains(stage); }
  int collected_segment(int stage) const {
    return program.segments[stage] > 1 ? program.segments[stage] - 1 : -1;
  }

  /// The edge brings something of this microbatch, one way or back.
  bool flows(const Edge& edge, bool forward, int cell) const {
    return (forward || edge.backward) && present_in(edge.from, cell) && present_in(edge.to, cell);
  }
  bool present_in(int stage, int cell) const {
    return present(stage, cell / program.microbatches, cell % program.microbatches);
  }

  /// F of exactly this name is in the list; what it keeps moves out and back.
  bool made_as_named(int device, int stage, int segment, int microbatch) const {
    return instructions_.contains({device, Op::Forward, stage, microbatch, segment});
  }
  /// Optimizer state of exactly this name comes in for STEP and leaves after it.
  bool state_moves(int device, int stage, int segment) const {
    return instructions_.contains({device, Op::In, stage, -1, segment}) ||
           instructions_.contains({device, Op::Out, stage, -1, segment});
  }
  bool moves(int device, int stage, int segment, int microbatch) const {
    return instructions_.contains({device, Op::Out, stage, microbatch, segment});
  }

  /// R covers the segment, or for -1 all segments.
  bool recomputed(int device, int stage, int segment, int microbatch) const;

  /// Index into Program::buffers, -1: none. What comes again is not found here.
  int kept(int device, BufferKind kind, int stage, int segment, int microbatch) const;
  int stage_end(int device, BufferKind kind, int stage, int microbatch) const;
  int carried(int device, BufferKind kind, int edge, Direction direction, int microbatch) const;

  /// Some replica and microbatch of this mode has such a buffer. Mode 1: nothing needs to pass from
  /// I to W because there is a B, or from F to R because there is no R.
  bool declared(BufferKind kind, int stage, int segment, int mode = 0) const;
  int mode(BufferKind kind, int device, int stage, int segment, int microbatch) const;

  /// Buffers of a device by the instruction at which they begin.
  const std::vector<int>& by_first(int device) const { return by_first_[device]; }

 private:
  using Name = std::tuple<int, BufferKind, int, int, int, int, int>;

  void read_header();
  void read_kinds();
  void read_lists();
  void read_buffers();
  void read_buffer(int index);
  Name name_of(const Buffer& b) const;
  int find(const Name& name) const;

  std::vector<int> replica_;
  std::vector<int> count_;  // replicas that a device works for
  std::vector<std::vector<int>> stages_;
  std::set<std::tuple<int, Op, int, int, int>>
      instructions_;  // device, op, stage, microbatch, segment
  std::set<Absence> absent_;
  std::set<int> collecting_;
  bool has_norm_ = false;
  std::map<Name, int> buffers_;
  std::set<std::tuple<BufferKind, int, int, int>> declared_;
  std::vector<std::vector<int>> by_first_;
};

}  // namespace cleave::schedule::oracle
