#include <algorithm>

#include "cleave/schedule/checks/checks.h"
#include "cleave/schedule/effects.h"

namespace cleave::schedule::checks {
namespace {

// Which segments of shared parameters are whole at the moment.
class ParameterWalk {
 public:
  ParameterWalk(const Tables& tables, Findings& findings)
      : t_(tables),
        findings_(findings),
        segment_(tables.last_weight.size(), State::Away),
        gathered_(static_cast<std::int64_t>(tables.program.stages) * tables.program.replicas) {}

  bool needed() const { return std::ranges::count(t_.program.sharing, Sharing::Values) > 0; }

  void device(int d) {
    d_ = d;
    replica_ = t_.topology.replica[d];
    const auto& list = t_.program.lists[d];
    for (std::int32_t at = 0; at < std::ssize(list); ++at) visit(at, list[at]);
    for (const int stage : t_.topology.stages[d])
      if (gathered(stage).stage != State::Away || gathered(stage).begun > 0)
        findings_.add(d, -1, "the gathered parameters of stage ", stage, " are never freed");
  }

 private:
  enum class State : char { Away, Coming, Whole };

  // What one device has of a stage. FREE gives back what one GATHER brought: a stage or a segment.
  struct Gathered {
    State stage = State::Away;
    int begun = 0;  // segments that are not away
    int whole = 0;  // segments
  };

  Gathered& gathered(int stage) {
    return gathered_[static_cast<std::int64_t>(stage) * t_.program.replicas + replica_];
  }

  State& segment(const Instruction& i) {
    return segment_[t_.segment_index(StageId{i.stage}, replica_) + i.segment];
  }

  void visit(std::int32_t at, const Instruction& i) {
    if (i.op == Op::Gather) return gather(at, i);
    if (i.op == Op::Wait && i.completes == Op::Gather) return arrive(i);
    if (i.op == Op::Free) return free(at, i);
    // W needs what I kept, not the parameters; STEP and REFRESH work on shares and whole stages.
    const bool uses = is_compute(i.op) && reads(t_.topology.acts_as(i), Thing::Values);
    if (!uses || sharing_of(t_.program, i.stage) != Sharing::Values) return;
    const Gathered& g = gathered(i.stage);
    if (g.stage == State::Whole ||
        (i.segment < 0 ? g.whole == t_.segments[i.stage] : segment(i) == State::Whole))
      return;
    findings_.add(d_, at, "runs while the parameters of stage ", i.stage, " are not gathered");
  }

  void gather(std::int32_t at, const Instruction& i) {
    Gathered& g = gathered(i.stage);
    if (g.stage != State::Away || (i.segment < 0 ? g.begun > 0 : segment(i) != State::Away))
      return findings_.add(d_, at, "gathers what is gathered already");
    if (i.segment < 0) {
      g.stage = State::Coming;
    } else {
      segment(i) = State::Coming;
      ++g.begun;
    }
  }

  // That the GATHER is there was checked with all postings; a FREE before its WAIT shows here.
  void arrive(const Instruction& i) {
    Gathered& g = gathered(i.stage);
    State& state = i.segment < 0 ? g.stage : segment(i);
    if (state != State::Coming) return;
    state = State::Whole;
    if (i.segment >= 0) ++g.whole;
  }

  void free(std::int32_t at, const Instruction& i) {
    Gathered& g = gathered(i.stage);
    State& state = i.segment < 0 ? g.stage : segment(i);
    if (state != State::Whole)
      return findings_.add(d_, at, "frees what no GATHER of the same name has brought");
    state = State::Away;
    if (i.segment < 0) return;
    --g.begun;
    --g.whole;
  }

  const Tables& t_;
  Findings& findings_;
  std::vector<State> segment_;      // [segment_index + segment]: gathered by itself
  std::vector<Gathered> gathered_;  // [stage * replicas + replica]
  int d_ = 0;
  ReplicaId replica_{0};
};

}  // namespace

void check_parameters(const Tables& tables, Findings& findings) {
  ParameterWalk walk(tables, findings);
  if (!walk.needed()) return;
  for (int device = 0; device < tables.program.devices; ++device) walk.device(device);
}

}  // namespace cleave::schedule::checks
