#include "schedule/oracle/machine.h"

// The end of a step: what the update needs of gradients, and what becomes of parameters.

namespace cleave::schedule::oracle {

void Machine::free_parameters(int d, const Instruction& i) {
  Mask& gathered = gathered_[d * layout_->program.stages + i.stage];
  const Mask mine = i.segment < 0 ? kWhole : bit(i.segment);
  demand(gathered & mine, "frees what is not gathered");
  demand(!(coming_[d * layout_->program.stages + i.stage] & mine), "frees what is on its way");
  gathered &= ~mine;
  for (auto& [key, buffer] : holding_)
    if (key == std::vector<int>{d, i.stage, i.segment}) {
      touch(buffer);
      key = {};
    }
}

// Every weight of the device has all contributions, each once.
void Machine::check_gradients(int d) const {
  const Program& p = layout_->program;
  // `contributions` is a row of microbatches for each replica, once or more.
  const auto complete = [&](const std::vector<std::uint8_t>& contributions, int stage) {
    for (std::size_t c = 0; c < contributions.size(); ++c)
      if (contributions[c] != layout_->present(stage,
                                               static_cast<int>(c) / p.microbatches % p.replicas,
                                               static_cast<int>(c) % p.microbatches))
        return false;
    return true;
  };
  const int replica = layout_->replica(d);
  for (const int stage : layout_->stages(d)) {
    if (!layout_->runs_weight(stage)) continue;
    int reduced = 0;
    for (int k = 0; k < p.segments[stage]; ++k) {
      demand(complete(gradient(replica, stage, k).contributions, stage), "an incomplete gradient");
      demand(!gradient(replica, stage, k).in_flight, "a sum on its way");
      reduced += gradient(replica, stage, k).reduced;
    }
    demand(reduced == 0 || reduced == p.segments[stage], "a gradient reduced in part");
    for (std::size_t t = 0; t < p.ties.size(); ++t) {
      if (p.ties[t].first != stage && p.ties[t].second != stage) continue;
      const TiedGradient& tied = tied_[t * p.replicas + replica];
      // Of both stages, one after the other.
      const std::size_t row = static_cast<std::size_t>(p.replicas) * p.microbatches;
      const std::size_t first = row * p.segments[p.ties[t].first];
      demand(tied.times == 1 && tied.contributions.size() >= first, "not tied once");
      const auto middle = tied.contributions.begin() + static_cast<std::ptrdiff_t>(first);
      demand(complete({tied.contributions.begin(), middle}, p.ties[t].first) &&
                 complete({middle, tied.contributions.end()}, p.ties[t].second),
             "an incomplete tied gradient");
    }
  }
}

void Machine::step_weights(int d, const Instruction& i) {
  demand(normed_[d] || !layout_->has_norm(), "STEP before NORM");
  check_gradients(d);
  if (i.stage >= 0) step_stage(d, i.stage, i.segment);
  bool any = i.stage >= 0;
  for (const int stage : layout_->stages(d)) {
    if (i.stage >= 0 || !layout_->runs_weight(stage)) continue;
    step_stage(d, stage, -1);
    any = true;
  }
  demand(any || !stepped_[d], "STEP again");
  stepped_[d] = 1;
}

}  // namespace cleave::schedule::oracle
