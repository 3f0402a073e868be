#include "cleave/schedule/program.h"

#include <algorithm>
#include <array>

#include "cleave/base/check.h"

namespace cleave::schedule {
namespace {

constexpr std::array<std::string_view, 14> kNames = {"F",      "I",    "W",    "B",      "R",
                                                     "SEND",   "RECV", "WAIT", "GATHER", "FREE",
                                                     "REDUCE", "TIE",  "NORM", "STEP"};

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
  return kNames.at(static_cast<std::size_t>(op));
}

std::string to_string(const Instruction& instruction) {
  std::string text;
  const Op op = instruction.op;
  if (is_compute(op)) append_place(text, instruction);
  text += name_of(op);
  if (op == Op::Wait) {
    text += ':';
    text += name_of(instruction.completes);
  }
  if (is_compute(op)) {
    text += std::to_string(instruction.microbatch);
  } else if (is_message(op)) {
    append_message(text, instruction);
  } else if (op == Op::Gather || op == Op::Free || op == Op::Reduce) {
    text += ':';
    append_place(text, instruction);
  } else if (op == Op::Tie) {
    text += ':';
    text += std::to_string(instruction.edge);
  }
  return text;
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
    : replica(program.devices, -1),
      stages(program.devices),
      incoming(program.stages),
      outgoing(program.stages) {
  for (int stage = 0; stage < program.stages; ++stage) {
    const auto& devices = program.placement.at(stage);
    for (int r = 0; r < static_cast<int>(devices.size()); ++r) {
      replica.at(devices[r]) = r;
      stages.at(devices[r]).push_back(stage);
    }
  }
  for (int edge = 0; edge < static_cast<int>(program.edges.size()); ++edge) {
    outgoing.at(program.edges[edge].from).push_back(edge);
    incoming.at(program.edges[edge].to).push_back(edge);
  }
}

}  // namespace cleave::schedule
