#include <algorithm>

#include "cleave/schedule/checks/checks.h"

namespace cleave::schedule::checks {
namespace {

// Which segments of sharded parameters are whole at the moment.
class ParameterWalk {
 public:
  ParameterWalk(const Tables& tables, Findings& findings)
      : t_(tables),
        findings_(findings),
        segment_(tables.last_weight.size(), 0),
        gathered_(static_cast<std::int64_t>(tables.program.stages) * tables.program.replicas),
        sharded_(tables.program.stages, 0) {
    for (const auto& list : tables.program.lists)
      for (const Instruction& i : list)
        if (i.op == Op::Gather || i.op == Op::Free) sharded_[i.stage] = 1;
  }

  bool needed() const { return std::ranges::count(sharded_, 1) > 0; }

  void device(int d) {
    d_ = d;
    replica_ = t_.topology.replica[d];
    const auto& list = t_.program.lists[d];
    for (std::int32_t at = 0; at < std::ssize(list); ++at) visit(at, list[at]);
    for (const int stage : t_.topology.stages[d])
      if (gathered(stage).stage || gathered(stage).segments > 0)
        findings_.add(d, -1, "the gathered parameters of stage ", stage, " are never freed");
  }

 private:
  // Of one stage on one device. FREE gives back what one GATHER brought: a stage or a segment.
  struct Gathered {
    bool stage = false;
    int segments = 0;
  };

  Gathered& gathered(int stage) {
    return gathered_[static_cast<std::int64_t>(stage) * t_.program.replicas + replica_];
  }

  char& segment(const Instruction& i) {
    return segment_[t_.segment_index(i.stage, replica_) + i.segment];
  }

  void visit(std::int32_t at, const Instruction& i) {
    if (i.op == Op::Gather) return gather(at, i);
    if (i.op == Op::Free) return free(at, i);
    // W needs what I kept, not the parameters.
    const bool uses = is_compute(i.op) && i.op != Op::BackwardWeight;
    if (!uses || !sharded_[i.stage]) return;
    const Gathered& g = gathered(i.stage);
    if (g.stage || (i.segment < 0 ? g.segments == t_.segments[i.stage] : segment(i) == 1)) return;
    findings_.add(d_, at, "runs while the parameters of stage ", i.stage, " are not gathered");
  }

  void gather(std::int32_t at, const Instruction& i) {
    Gathered& g = gathered(i.stage);
    if (g.stage || (i.segment < 0 ? g.segments > 0 : segment(i) == 1))
      return findings_.add(d_, at, "gathers what is gathered already");
    if (i.segment < 0) {
      g.stage = true;
    } else {
      segment(i) = 1;
      ++g.segments;
    }
  }

  void free(std::int32_t at, const Instruction& i) {
    Gathered& g = gathered(i.stage);
    if (!(i.segment < 0 ? g.stage : segment(i) == 1))
      return findings_.add(d_, at, "frees what no GATHER of the same name has brought");
    if (i.segment < 0) {
      g.stage = false;
    } else {
      segment(i) = 0;
      --g.segments;
    }
  }

  const Tables& t_;
  Findings& findings_;
  std::vector<char> segment_;       // [segment_index + segment]: gathered by itself
  std::vector<Gathered> gathered_;  // [stage * replicas + replica]
  std::vector<char> sharded_;       // [stage]
  int d_ = 0;
  int replica_ = 0;
};

}  // namespace

void check_parameters(const Tables& tables, Findings& findings) {
  ParameterWalk walk(tables, findings);
  if (!walk.needed()) return;
  for (int device = 0; device < tables.program.devices; ++device) walk.device(device);
}

}  // namespace cleave::schedule::checks
