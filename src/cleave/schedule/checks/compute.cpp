#include <algorithm>
#include <utility>

#include "cleave/schedule/checks/checks.h"
#include "cleave/schedule/effects.h"

namespace cleave::schedule::checks {
namespace {

// Walks one device's list and counts what each unit has done. Positions on one device compare, so
// the order of F, I, W and R of a unit is known here.
class ComputeWalk {
 public:
  ComputeWalk(Tables& tables, Findings& findings)
      : t_(tables), findings_(findings), next_microbatch_(tables.last_weight.size(), 0) {
    for (StageId stage{0}; stage < t_.program.stages; ++stage)
      for (ReplicaId replica{0}; replica < t_.program.replicas; ++replica)
        std::fill_n(next_microbatch_.begin() + t_.segment_index(stage, replica), t_.segments[stage],
                    t_.next_present(stage, {.replica = replica}));
  }

  void visit(int device, std::int32_t at, const Instruction& i) {
    device_ = device;
    at_ = at;
    of_ = t_.topology.of_replica(device, i);
    total_ = t_.segments[i.stage];
    unit_ = &t_.unit(i.stage, of_);
    if (i.segment >= 0) record_piece(i);
    const Op op = t_.topology.acts_as(i);
    if (op == Op::Forward) forward(i);
    if (op == Op::Recompute) recompute(i);
    if (reads(op, Thing::OutputGradient)) backward_input(i);
    if (writes(op, Thing::Gradients)) backward_weight(i);
  }

 private:
  void record_piece(const Instruction& i) {
    const std::int64_t unit = t_.unit_index(i.stage, of_);
    const auto record = [&](Op op) {
      t_.pieces.push_back({Tables::piece_key(unit, i.segment, op), at_});
    };
    if (t_.topology.acts_as(i) != Op::Backward) return record(i.op);
    record(Op::BackwardInput);
    record(Op::BackwardWeight);
  }

  template <class... Parts>
  void complain(const Parts&... parts) {
    findings_.add(device_, at_, parts...);
  }

  void forward(const Instruction& i) {
    const int segment = std::max(i.segment, 0);
    unit_->forward.add(at_);
    if (segment < unit_->forward_done)
      complain("runs a second time");
    else if (segment > unit_->forward_done)
      complain("runs before segment ", unit_->forward_done);
    else
      unit_->forward_done = i.segment < 0 ? total_ : segment + 1;
  }

  void recompute(const Instruction& i) {
    const bool whole = i.segment < 0;
    const int needed = whole ? total_ : i.segment + 1;
    const int gone = whole ? unit_->input_done : unit_->input_done - (total_ - 1 - i.segment);
    unit_->recompute.add(at_);
    if (unit_->forward_done < needed) complain("runs before the forward it repeats");
    if (gone > 0) complain("runs after the backward it is for");
    unit_->recompute_done += whole ? total_ : 1;
    // Repeated segments that are named are found among the pieces.
    if (unit_->recompute_done > total_) complain("runs a second time");
  }

  void backward_input(const Instruction& i) {
    const int from_end = i.segment < 0 ? 0 : total_ - 1 - i.segment;
    unit_->input.add(at_);
    if (i.op == Op::BackwardInput) unit_->input_and_weight_apart = true;
    if (unit_->forward_done < total_) complain("runs before its forward is done");
    if (from_end < unit_->input_done)
      complain("runs a second time");
    else if (from_end > unit_->input_done)
      complain("runs before segment ", total_ - 1 - unit_->input_done);
    else
      unit_->input_done = i.segment < 0 ? total_ : from_end + 1;
  }

  void backward_weight(const Instruction& i) {
    const int first = std::max(i.segment, 0);
    const int last = i.segment < 0 ? total_ - 1 : i.segment;
    const std::int64_t base = t_.segment_index(StageId{i.stage}, of_.replica);
    const std::int64_t held = t_.segment_index(StageId{i.stage}, t_.topology.replica[device_]);
    unit_->weight.add(at_);
    t_.weights[static_cast<std::size_t>(i.stage) * t_.program.replicas +
               t_.topology.replica[device_]]
        .add(at_);
    if (unit_->input_done < total_ - first) complain("runs before the backward_input it needs");
    for (int segment = first; segment <= last; ++segment) {
      int& next = next_microbatch_[base + segment];
      if (of_.microbatch < next) {
        if (unit_->weight_done >= total_) return complain("runs a second time");
        unit_->weight_done += last - segment + 1;
        return complain("runs after a later microbatch; W of a stage goes in microbatch order");
      }
      if (of_.microbatch > next)
        complain("runs before microbatch ",
                 t_.topology.on_device(device_, {of_.replica, MicrobatchId{next}}),
                 "; W of a stage goes in microbatch order");
      next = t_.next_present(
          i.stage, {.replica = of_.replica, .microbatch = MicrobatchId{of_.microbatch + 1}});
      ++unit_->weight_done;
      if (t_.first_weight[held + segment] < 0) t_.first_weight[held + segment] = at_;
      t_.last_weight[held + segment] = at_;
    }
  }

  Tables& t_;
  Findings& findings_;
  std::vector<int> next_microbatch_;  // [segment_index + segment]: whose W comes next
  int device_ = 0;
  std::int32_t at_ = 0;
  OfReplica of_;
  int total_ = 1;
  Unit* unit_ = nullptr;
};

void check_complete(const Tables& t, Level level, Findings& findings) {
  const Program& p = t.program;
  const Unit* unit = t.units.data();
  for (int stage = 0; stage < p.stages; ++stage)
    for (ReplicaId replica{0}; replica < p.replicas; ++replica)
      for (MicrobatchId microbatch{0}; microbatch < p.microbatches; ++microbatch, ++unit) {
        const OfReplica of{.replica = replica, .microbatch = microbatch};
        if (!t.topology.present(stage, of)) continue;
        const int total = t.segments[stage];
        const GradientKind kind = gradients_of(p, stage);
        const auto missing = [&](int done, const char* what) {
          if (done >= total) return;
          const int device = p.placement[stage][replica];
          findings.add(
              device, -1, what, " of stage ", stage, ", microbatch ",
              t.topology.on_device(device, of), " is missing",
              total > 1 ? cleave::detail::concat(" for ", total - done, " of ", total, " segments")
                        : std::string());
        };
        missing(unit->forward_done, "F");
        if (level == Level::Forward) continue;
        if (makes_input_gradient(kind)) missing(unit->input_done, "I (or B)");
        if (makes_weight_gradient(kind)) missing(unit->weight_done, "W (or B)");
      }
}

void check_pieces(Tables& t, Findings& findings) {
  std::ranges::sort(t.pieces, {},
                    [](const SegmentPosition& p) { return std::pair(p.key, p.position); });
  const auto repeat = std::ranges::adjacent_find(t.pieces, {}, &SegmentPosition::key);
  if (repeat == t.pieces.end() || findings.any()) return;
  const std::int64_t unit = static_cast<std::int64_t>(repeat->key >> 16);
  const std::int64_t stage_and_replica = unit / t.program.microbatches;
  const int device = t.program.placement[stage_and_replica / t.program.replicas]
                                        [stage_and_replica % t.program.replicas];
  findings.add(device, std::next(repeat)->position, "runs a second time");
}

}  // namespace

void check_compute(Tables& tables, Level level, Findings& findings) {
  ComputeWalk walk(tables, findings);
  const Program& program = tables.program;
  for (int device = 0; device < program.devices; ++device) {
    const auto& list = program.lists[device];
    for (std::int32_t at = 0; at < std::ssize(list); ++at)
      if (is_compute(list[at].op)) walk.visit(device, at, list[at]);
  }
  check_complete(tables, level, findings);
  check_pieces(tables, findings);
}

}  // namespace cleave::schedule::checks
