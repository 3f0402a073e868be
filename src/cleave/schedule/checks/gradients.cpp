#include <algorithm>

#include "cleave/schedule/checks/checks.h"

namespace cleave::schedule::checks {
namespace {

// One device's gradients: when they are complete, reduced, tied; when the norm and the step come.
class GradientWalk {
 public:
  GradientWalk(Tables& tables, Level level, Findings& findings)
      : t_(tables),
        p_(tables.program),
        final_(level == Level::Final),
        findings_(findings),
        tied_at_(p_.ties.size()) {
    ties_of_.resize(p_.stages);
    for (int tie = 0; tie < std::ssize(p_.ties); ++tie) {
      const auto [first, second, bytes] = p_.ties[tie];
      ties_of_[first].push_back(tie);
      if (second != first) ties_of_[second].push_back(tie);
    }
  }

  void device(int d) {
    d_ = d;
    norm_ = first_step_ = last_tie_ = -1;
    std::ranges::fill(refreshed_, -1);
    for (const int stage : t_.topology.stages[d])
      for (const int tie : ties_of_[stage]) tied_at_[tie] = -1;

    const auto& list = p_.lists[d];
    for (std::int32_t at = 0; at < std::ssize(list); ++at) visit(at, list[at]);

    ready_ = -1;
    for (const int stage : t_.topology.stages[d]) ready_ = std::max(ready_, finish_stage(stage));
    for (const int stage : t_.topology.stages[d]) finish_ties(stage);
    finish_optimizer();
    for (const int stage : t_.topology.stages[d]) finish_refresh(stage);
  }

 private:
  void visit(std::int32_t at, const Instruction& i) {
    if (i.op == Op::Reduce) reduce(at, i);
    if (i.op == Op::Wait && i.completes == Op::Reduce) summed(at, i);
    if (i.op == Op::Refresh) once(refreshed_[i.stage], at);
    if (i.op == Op::Tie) once(tied_at_[i.edge], at), last_tie_ = at;
    if (i.op == Op::Norm) once(norm_, at);
    if (i.op == Op::Step) step(at, i);
  }

  void once(std::int32_t& position, std::int32_t at) {
    if (position >= 0)
      findings_.add(d_, at, "is there a second time; the first is instruction ", position);
    position = at;
  }

  // STEP updates a segment, a stage, or all stages of the device.
  void step(std::int32_t at, const Instruction& i) {
    if (first_step_ < 0) first_step_ = at;
    if (i.stage >= 0) return step_stage(at, StageId{i.stage}, SegmentId{i.segment});
    bool any = false;
    for (const int stage : t_.topology.stages[d_]) {
      if (!learns(stage)) continue;
      step_stage(at, StageId{stage}, SegmentId{-1});
      any = true;
    }
    if (!any && first_step_ != at)
      findings_.add(d_, at, "is there a second time; the first is instruction ", first_step_);
  }

  void step_stage(std::int32_t at, StageId stage, SegmentId segment) {
    const int first = std::max<int>(segment, 0);
    const int last = segment < 0 ? t_.segments[stage] - 1 : segment;
    const std::int64_t base = base_of(stage);
    for (int k = first; k <= last; ++k) {
      std::int32_t& position = t_.stepped[base + k];
      if (position >= 0)
        return findings_.add(d_, at, "updates again what instruction ", position, " updated");
      position = at;
    }
  }

  void reduce(std::int32_t at, const Instruction& i) {
    const int first = std::max(i.segment, 0);
    const int last = i.segment < 0 ? t_.segments[i.stage] - 1 : i.segment;
    const std::int64_t base = base_of(i.stage);
    for (int segment = first; segment <= last; ++segment) {
      std::int32_t& position = t_.reduced[base + segment];
      if (position >= 0)
        return findings_.add(d_, at, "reduces again what instruction ", position, " reduced");
      position = at;
      if (t_.last_weight[base + segment] > at)
        return findings_.add(d_, at, "comes before the last W (instruction ",
                             t_.last_weight[base + segment], ")");
    }
  }

  void summed(std::int32_t at, const Instruction& i) {
    const int first = std::max(i.segment, 0);
    const int last = i.segment < 0 ? t_.segments[i.stage] - 1 : i.segment;
    const std::int64_t base = base_of(i.stage);
    for (int segment = first; segment <= last; ++segment) t_.summed[base + segment] = at;
  }

  // Where arrays over segments have segment 0 of a stage of the present device.
  std::int64_t base_of(int stage) const {
    return t_.segment_index(StageId{stage}, t_.topology.replica[d_]);
  }

  bool learns(int stage) const { return makes_weight_gradient(gradients_of(p_, stage)); }

  // The position from which the gradients of `stage` are complete.
  std::int32_t finish_stage(int stage) {
    if (!learns(stage)) return ready_of_[stage] = -1;
    const std::int64_t base = base_of(stage);
    std::int32_t ready = -1;
    int reduced = 0;
    for (int segment = 0; segment < t_.segments[stage]; ++segment) {
      ready = std::max({ready, t_.last_weight[base + segment], t_.reduced[base + segment],
                        t_.summed[base + segment]});
      reduced += t_.reduced[base + segment] >= 0;
    }
    const int holders = t_.topology.holders(d_);
    const bool none_is_fine = holders == 1 || !final_ || !t_.takes_part(stage);
    if (reduced < t_.segments[stage] && !(reduced == 0 && none_is_fine))
      findings_.add(d_, -1, "the gradient of stage ", stage, " is not reduced over its ", holders,
                    " replicas",
                    reduced > 0 ? cleave::detail::concat(" in ", t_.segments[stage] - reduced,
                                                         " of its segments")
                                : std::string());
    return ready_of_[stage] = ready;
  }

  void finish_ties(int stage) {
    for (const int tie : ties_of_[stage]) {
      const std::int32_t at = tied_at_[tie];
      if (at < 0) {
        if (final_) findings_.add(d_, -1, "TIE:", tie, " is missing");
      } else if (at < ready_of_[stage]) {
        findings_.add(d_, at, "comes before the gradient of stage ", stage,
                      " is complete (instruction ", ready_of_[stage], ")");
      }
    }
  }

  void finish_optimizer() {
    if (t_.mentions(Op::Norm) && norm_ < 0)
      findings_.add(d_, -1, "NORM is missing; other devices take part");
    for (const int stage : t_.topology.stages[d_])
      if (final_ && learns(stage) && steps_of(stage).empty()) {
        const auto what =
            first_step_ < 0 ? std::string("STEP") : cleave::detail::concat("STEP:", stage);
        findings_.add(d_, -1, what, " is missing");
        break;
      }
    const auto after = [&](std::int32_t at, std::int32_t needed, const char* what) {
      if (at >= 0 && at < needed)
        findings_.add(d_, at, "comes before ", what, " (instruction ", needed, ")");
    };
    after(norm_, ready_, "the device's gradients are complete");
    after(norm_, last_tie_, "the last TIE");
    after(first_step_, ready_, "the device's gradients are complete");
    after(first_step_, last_tie_, "the last TIE");
    after(first_step_, norm_, "NORM");
  }

  // The positions between which a stage is updated; empty if some of it is not.
  Span steps_of(int stage) const {
    const std::int64_t base = base_of(stage);
    Span steps;
    for (int segment = 0; segment < t_.segments[stage]; ++segment) {
      const std::int32_t at = t_.stepped[base + segment];
      if (at < 0) return {};
      steps =
          steps.empty() ? Span{at, at} : Span{std::min(steps.first, at), std::max(steps.last, at)};
    }
    return steps;
  }

  // The values of a stage are whole again at the end of the step.
  void finish_refresh(int stage) {
    const Sharing sharing = sharing_of(p_, stage);
    const bool shared = sharing == Sharing::State || sharing == Sharing::Gradients;
    const std::int32_t at = refreshed_[stage];
    if (final_ && shared && learns(stage) && at < 0)
      findings_.add(d_, -1, "REFRESH:", stage, " is missing");
    if (at >= 0 && (steps_of(stage).empty() || at < steps_of(stage).last))
      findings_.add(d_, at, "comes before STEP has updated anything");
  }

  Tables& t_;
  const Program& p_;
  bool final_;
  Findings& findings_;
  std::vector<std::int32_t> tied_at_;  // [tie] on the present device
  std::vector<std::int32_t> ready_of_ = std::vector<std::int32_t>(p_.stages);   // [stage]
  std::vector<std::int32_t> refreshed_ = std::vector<std::int32_t>(p_.stages);  // [stage]
  std::vector<std::vector<int>> ties_of_;                                       // [stage]
  int d_ = 0;
  std::int32_t norm_ = -1;
  std::int32_t first_step_ = -1;
  std::int32_t last_tie_ = -1;
  std::int32_t ready_ = -1;
};

}  // namespace

void check_gradients(Tables& tables, Level level, Findings& findings) {
  GradientWalk walk(tables, level, findings);
  for (int device = 0; device < tables.program.devices; ++device) walk.device(device);
}

}  // namespace cleave::schedule::checks
