#include "cleave/schedule/program.h"

#include <algorithm>
#include <iterator>
#include <ostream>

#include "cleave/schedule/effects.h"

namespace cleave::schedule {
namespace {

void append_place(std::string& text, const Instruction& instruction) {
  text += std::to_string(instruction.stage);
  if (instruction.segment >= 0) {
    text += '.';
    text += std::to_string(instruction.segment);
  }
}

void append_message(std::string& text, const Instruction& instruction) {
  text += ':';
  text += std::to_string(instruction.edge);
  text += instruction.direction == Direction::Forward ? '>' : '<';
  text += std::to_string(instruction.microbatch);
}

}  // namespace

std::string_view name_of(Op op) {
  return effects(op).word;
}

std::string to_string(const Instruction& instruction) {
  std::string text;
  const Operand operand = effects(subject(instruction)).operand;
  if (operand == Operand::Pass) append_place(text, instruction);
  text += name_of(instruction.op);
  if (instruction.op == Op::Wait) {
    text += ':';
    text += name_of(instruction.completes);
  }
  switch (operand) {
    case Operand::Pass:
      text += std::to_string(instruction.microbatch);
      break;
    case Operand::Message:
      append_message(text, instruction);
      break;
    case Operand::Stage:
      text += ':';
      append_place(text, instruction);
      break;
    case Operand::Kept:
      if (instruction.edge >= 0) {
        append_message(text, instruction);
        break;
      }
      text += ':';
      append_place(text, instruction);
      if (instruction.microbatch < 0) break;
      text += '@';
      text += std::to_string(instruction.microbatch);
      break;
    case Operand::Update:
      if (instruction.stage < 0) break;
      text += ':';
      append_place(text, instruction);
      break;
    case Operand::Tie:
      text += ':';
      text += std::to_string(instruction.edge);
      break;
    case Operand::Nothing:
      break;
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const Instruction& instruction) {
  return out << to_string(instruction);
}

std::vector<SegmentRead> reads_of_edge(const Program& program, int edge) {
  if (program.reads.empty())
    return {{.stage = program.edges[edge].to, .from = maker_of(program, edge), .edge = edge}};
  std::vector<SegmentRead> found;
  std::ranges::copy_if(program.reads, std::back_inserter(found),
                       [&](const SegmentRead& read) { return read.edge == edge; });
  std::ranges::sort(found);
  return found;
}

std::vector<SegmentRead> reads_inside(const Program& program, StageId stage, SegmentId from) {
  if (program.reads.empty()) return {{.stage = stage, .segment = from + 1, .from = from}};
  std::vector<SegmentRead> found;
  std::ranges::copy_if(program.reads, std::back_inserter(found), [&](const SegmentRead& read) {
    return read.edge < 0 && read.stage == stage && read.from == from;
  });
  std::ranges::sort(found);
  return found;
}

int maker_of(const Program& program, int edge) {
  const auto found = std::ranges::find(program.reads, edge, &SegmentRead::edge);
  return found != program.reads.end() ? found->from
                                      : program.segments[program.edges[edge].from] - 1;
}

std::vector<int> holders_of(const Program& program, int stage) {
  std::vector<int> holders;
  for (const int device : program.placement[stage])
    if (holders.empty() || holders.back() != device) holders.push_back(device);
  return holders;
}

bool collects(const Program& program, int stage) {
  return std::ranges::binary_search(program.collecting, stage);
}

bool passes_through_host(const Program& program, int device) {
  return std::ranges::binary_search(program.through_host, device);
}

std::int64_t instruction_count(const Program& program) {
  std::int64_t count = 0;
  for (const auto& list : program.lists) count += static_cast<std::int64_t>(list.size());
  return count;
}

bool is_compute_only(const Program& program) {
  return std::ranges::all_of(program.lists, [](const auto& list) {
    return std::ranges::all_of(list, [](const Instruction& i) { return is_compute(i.op); });
  });
}

Topology::Topology(const Program& program)
    : replica(program.devices, ReplicaId{-1}),
      replicas(program.devices, 0),
      stages(program.devices),
      incoming(program.stages),
      outgoing(program.stages),
      replicas_(static_cast<std::size_t>(program.replicas)),
      microbatches_(program.microbatches),
      weight_only_(program.stages) {
  for (int stage = 0; stage < program.stages; ++stage) {
    const auto& devices = program.placement.at(stage);
    for (int r = 0; r < static_cast<int>(devices.size()); ++r) {
      if (r > 0 && devices[r] == devices[r - 1]) continue;
      const auto same = std::find_if(devices.begin() + r, devices.end(),
                                     [&](int device) { return device != devices[r]; });
      replica.at(devices[r]) = ReplicaId{r};
      replicas.at(devices[r]) = static_cast<int>(same - devices.begin()) - r;
      stages.at(devices[r]).push_back(stage);
    }
  }
  for (int edge = 0; edge < static_cast<int>(program.edges.size()); ++edge) {
    outgoing.at(program.edges[edge].from).push_back(edge);
    incoming.at(program.edges[edge].to).push_back(edge);
  }
  for (const Edge& edge : program.edges) edges_.push_back({edge.from, edge.to, edge.backward});
  for (int stage = 0; stage < program.stages; ++stage)
    weight_only_[stage] = gradients_of(program, stage) == GradientKind::WeightOnly;
  if (program.absent.empty()) return;
  absent_.resize(program.stages * replicas_ * static_cast<std::size_t>(microbatches_));
  for (const Absence& absence : program.absent)
    for (ReplicaId r{0}; r < program.replicas; ++r)
      if (absence.replica == Absence::kEveryReplica || absence.replica == r)
        absent_.at(slot(absence.stage,
                        {.replica = r, .microbatch = MicrobatchId{absence.microbatch}})) = true;
}

}  // namespace cleave::schedule
