#include "schedule/oracle/samples.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/plan/memory/memory.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/leave_out.h"
#include "cleave/schedule/passes.h"

namespace cleave::schedule::oracle {
namespace {

int draw(std::mt19937& random, int from, int to) {
  return from + static_cast<int>(random() % static_cast<unsigned>(to - from + 1));
}

bool chance(std::mt19937& random, int percent) {
  return draw(random, 0, 99) < percent;
}

// Edges that lead forward; a stage that nothing feeds, or that feeds nothing, may be anywhere.
std::vector<Edge> graph(int stages, std::mt19937& random) {
  std::vector<Edge> edges;
  for (int from = 0; from < stages; ++from)
    for (int to = from + 1; to < stages; ++to)
      if (chance(random, to == from + 1 ? 60 : 30)) edges.push_back({.from = from, .to = to});
  return edges;
}

// Stages that somebody reads are present where a reader is.
std::vector<Absence> absences(const PipelineShape& shape, std::mt19937& random) {
  std::vector<Absence> absent;
  for (int m = 0; m < shape.microbatches; ++m)
    for (int s = shape.devices - 1; s >= 0; --s) {
      const auto reads = [&](const Edge& e) { return e.from == s; };
      const auto gone = [&](const Edge& e) {
        return e.from != s || std::ranges::count(absent, Absence{e.to, m}) > 0;
      };
      const bool read = std::ranges::any_of(shape.graph, reads);
      if ((read && std::ranges::all_of(shape.graph, gone)) || chance(random, 15))
        absent.push_back({s, m});
    }
  std::ranges::sort(absent);
  return absent;
}

// Different numbers for different stages.
std::vector<int> replicas(int stages, std::mt19937& random) {
  const int most = draw(random, 2, 4);
  std::vector<int> counts;
  for (int s = 0; s < stages; ++s) {
    int count = draw(random, 1, most);
    while (most % count != 0) --count;
    counts.push_back(count);
  }
  return counts;
}

Program pipeline(std::mt19937& random) {
  const auto names = schedule_names();
  for (;;) {
    auto name = chance(random, 15) ? "gpipe" : names[random() % names.size()];
    const int most = chance(random, 5) ? 9 : chance(random, 25) ? 5 : 3;
    PipelineShape shape{.devices = draw(random, 1, most), .microbatches = draw(random, 1, most)};
    if (chance(random, 40)) shape.graph = graph(shape.devices, random);
    if (chance(random, 30)) shape.frozen.push_back(draw(random, 0, shape.devices - 1));
    if (chance(random, 10)) shape.frozen.push_back(0);
    if (chance(random, 25)) {
      shape.replicas = replicas(shape.devices, random);
      constexpr std::string_view kNames[] = {"gpipe", "1f1b", "zb-h1"};
      name = kNames[random() % 3];
    }
    if (!shape.graph.empty() && chance(random, 40)) shape.absent = absences(shape, random);
    try {
      return generate(name, shape);
    } catch (const UserError&) {
      // This schedule has no such shape.
    }
  }
}

// Skip connections, labels that do not flow back, tied weights, more segments.
void add_joints(Program& p, std::mt19937& random) {
  const auto kind = [&](int stage) { return gradients_of(p, stage); };
  if (p.stages > 2 && p.absent.empty() && chance(random, 30)) {
    const bool back = kind(0) != GradientKind::None && makes_input_gradient(kind(p.stages - 1));
    p.edges.push_back({.from = 0, .to = p.stages - 1, .backward = back});
  }
  if (p.stages > 1 && chance(random, 20))
    p.edges.push_back({.from = 0, .to = p.stages - 1, .backward = false});
  while (chance(random, 35)) {
    const Tie tie{.first = draw(random, 0, p.stages - 1), .second = draw(random, 0, p.stages - 1)};
    if (holders_of(p, tie.first).size() != holders_of(p, tie.second).size()) continue;
    if (makes_weight_gradient(kind(tie.first)) && makes_weight_gradient(kind(tie.second)))
      p.ties.push_back(tie);
  }
  if (chance(random, 40))
    for (int& segments : p.segments) segments = draw(random, 1, 3);
}

// Losses over all samples of a step, where every F of a stage comes before its backward passes:
// the last segment of stages that nobody reads.
void add_collections(Program& p, std::mt19937& random) {
  if (p.schedule != "gpipe") return;
  for (int s = 0; s < p.stages; ++s) {
    const bool read = std::ranges::any_of(p.edges, [&](const Edge& e) { return e.from == s; });
    const bool absent =
        std::ranges::any_of(p.absent, [&](const Absence& a) { return a.stage == s; });
    if (!read && !absent && chance(random, 60)) p.collecting.push_back(s);
  }
}

LowerOptions options(const Program& p, std::mt19937& random) {
  LowerOptions options;
  options.replicas = chance(random, p.replicas > 1 ? 10 : 35) ? 2 : 1;
  options.grain = chance(random, 40) ? Grain::Segment : Grain::Stage;
  options.sharing = static_cast<Sharing>(draw(random, 0, 3));
  options.receive_ahead = draw(random, 1, 2);
  options.offload = static_cast<Offload>(chance(random, 60) ? draw(random, 0, 3) : 0);
  // Alike on all replicas: what leave_out() needs.
  if (chance(random, 25))
    for (int d = 0; d < p.devices; ++d)
      if (p.replicas > 1 || chance(random, 60))
        for (int r = 0; r < options.replicas; ++r)
          options.through_host.push_back(r * p.devices + d);
  std::ranges::sort(options.through_host);
  if (chance(random, 25))
    for (int s = 0; s < p.stages; ++s)
      options.recompute.push_back(chance(random, 60) ? Recompute::Full : Recompute::None);
  if (!options.recompute.empty() && chance(random, 30)) {
    for (int s = 0; s < p.stages; ++s) {
      options.keeping.emplace_back(p.segments[s], false);
      if (p.segments[s] > 1) options.keeping.back()[draw(random, 0, p.segments[s] - 1)] = true;
    }
  }
  return options;
}

// A single replica may reduce its gradients with itself.
void add_lone_reductions(Program& p) {
  for (int s = 0; s < p.stages; ++s) {
    if (!makes_weight_gradient(gradients_of(p, s))) continue;
    auto& list = p.lists[p.placement[s][0]];
    const auto tail = std::ranges::find_if(list, [](const Instruction& i) {
      return i.op >= Op::Tie && i.op < Op::Out && i.op != Op::Collect;
    });
    list.insert(tail, {{.op = Op::Reduce, .stage = s},
                       {.op = Op::Wait, .completes = Op::Reduce, .stage = s}});
  }
}

void add_buffers(Program& p, std::mt19937& random) {
  const auto bytes = [&] { return chance(random, 20) ? 0 : draw(random, 1, 200); };
  for (Edge& e : p.edges) {
    e.forward_bytes = bytes();
    e.backward_bytes = e.backward ? bytes() : 0;
  }
  std::vector<plan::StageMemory> memory(p.stages);
  for (plan::StageMemory& m : memory)
    for (std::int64_t* field :
         {&m.weights, &m.gradients, &m.optimizer, &m.scratch, &m.kept_for_input, &m.kept_for_weight,
          &m.input_kept, &m.backward_work, &m.kept_for_recompute, &m.loaded, &m.result, &m.gathered,
          &m.scratch_on_host})
      *field = bytes();
  if (chance(random, 40)) {
    for (int s = 0; s < p.stages; ++s) {
      memory[s].segments.resize(p.segments[s]);
      for (plan::SegmentMemory& m : memory[s].segments)
        for (std::int64_t* field :
             {&m.kept_for_input, &m.kept_for_weight, &m.input_kept, &m.backward_work,
              &m.kept_for_recompute, &m.recomputed, &m.x, &m.dy, &m.gathered, &m.sums, &m.share,
              &m.reducing, &m.collected, &m.state, &m.reducing_on_host, &m.gathering_on_host,
              &m.refreshing_on_host, &m.collecting_on_host})
          *field = bytes();
    }
  }
  plan::plan_memory(p, memory);
  if (chance(random, 50)) p.budgets = plan::peak_bytes(p);
  if (chance(random, 50)) p.outside_budgets = plan::outside_bytes(p);
}

// Replicas that take part in different microbatches. Stages that somebody reads are present where a
// reader is.
std::vector<Absence> absences_of_replicas(const Program& p, std::mt19937& random) {
  std::vector<Absence> absent;
  const Topology topology(p);
  for (ReplicaId r{0}; r < p.replicas; ++r)
    for (MicrobatchId m{0}; m < p.microbatches; ++m)
      for (int s = p.stages - 1; s >= 0; --s) {
        const auto reads = [&](const Edge& e) { return e.from == s && e.backward; };
        const auto gone = [&](const Edge& e) {
          return !reads(e) || !topology.present(e.to, {.replica = r, .microbatch = m}) ||
                 std::ranges::count(absent, Absence{e.to, m, r}) > 0;
        };
        const bool read = std::ranges::any_of(p.edges, reads);
        if ((read && std::ranges::all_of(p.edges, gone)) || chance(random, 15))
          absent.push_back({s, m, r});
      }
  return absent;
}

}  // namespace

Program sample(std::mt19937& random, bool compute_only) {
  Program p = pipeline(random);
  add_joints(p, random);
  add_collections(p, random);
  if (compute_only) return p;
  p = lower(std::move(p), options(p, random));
  if (chance(random, 15))
    for (auto& list : p.lists)
      std::erase_if(list, [](const Instruction& i) { return i.op == Op::Norm; });
  if (p.replicas == 1 && chance(random, 10)) add_lone_reductions(p);
  if (chance(random, 40)) add_buffers(p, random);
  // What is collected is of all microbatches.
  if (p.collecting.empty() && chance(random, p.replicas > 1 ? 60 : 10))
    p = leave_out(p, absences_of_replicas(p, random));
  return p;
}

}  // namespace cleave::schedule::oracle
