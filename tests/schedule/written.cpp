#include "schedule/written.h"

#include <map>
#include <sstream>

namespace cleave::schedule::testing {
namespace {

const std::map<std::string, Op> kWords = {{"F", Op::Forward},
                                          {"I", Op::BackwardInput},
                                          {"W", Op::BackwardWeight},
                                          {"B", Op::Backward},
                                          {"R", Op::Recompute},
                                          {"SEND", Op::Send},
                                          {"RECV", Op::Receive},
                                          {"WAIT", Op::Wait},
                                          {"GATHER", Op::Gather},
                                          {"FREE", Op::Free},
                                          {"REDUCE", Op::Reduce},
                                          {"TIE", Op::Tie},
                                          {"NORM", Op::Norm},
                                          {"STEP", Op::Step},
                                          {"REFRESH", Op::Refresh},
                                          {"OUT", Op::Out},
                                          {"IN", Op::In}};

void read_place(const std::string& text, Instruction& i) {
  const std::size_t dot = text.find('.');
  i.stage = std::stoi(text.substr(0, dot));
  if (dot != std::string::npos) i.segment = std::stoi(text.substr(dot + 1));
}

void read_message(const std::string& text, Instruction& i) {
  const std::size_t arrow = text.find_first_of("<>");
  i.edge = std::stoi(text.substr(0, arrow));
  i.direction = text[arrow] == '>' ? Direction::Forward : Direction::Backward;
  i.microbatch = std::stoi(text.substr(arrow + 1));
}

Instruction read(const std::string& word) {
  Instruction i;
  const std::size_t letter = word.find_first_of("FIWBR");
  if (word[0] >= '0' && word[0] <= '9') {
    i.op = kWords.at(word.substr(letter, 1));
    read_place(word.substr(0, letter), i);
    i.microbatch = std::stoi(word.substr(letter + 1));
    return i;
  }
  std::size_t colon = word.find(':');
  i.op = kWords.at(word.substr(0, colon));
  if (i.op == Op::Wait) {
    const std::size_t next = word.find(':', colon + 1);
    i.completes = kWords.at(word.substr(colon + 1, next - colon - 1));
    colon = next;
  }
  const bool of_message = word.find_first_of("<>") != std::string::npos;
  if (of_message)
    read_message(word.substr(colon + 1), i);
  else if (i.op == Op::Tie)
    i.edge = std::stoi(word.substr(colon + 1));
  else if (colon != std::string::npos)
    read_place(word.substr(colon + 1), i);
  if (const std::size_t at = word.find('@'); at != std::string::npos)
    i.microbatch = std::stoi(word.substr(at + 1));
  return i;
}

}  // namespace

std::vector<Instruction> written(const std::string& text) {
  std::vector<Instruction> list;
  std::istringstream words(text);
  for (std::string word; words >> word;) list.push_back(read(word));
  return list;
}

Program chain(int microbatches, const std::vector<std::string>& lists) {
  const int stages = static_cast<int>(lists.size());
  Program program;
  program.schedule = "written";
  program.stages = program.devices = stages;
  program.microbatches = microbatches;
  program.segments.assign(stages, 1);
  for (int stage = 0; stage < stages; ++stage) {
    program.placement.push_back({stage});
    program.lists.push_back(written(lists[stage]));
    if (stage > 0) program.edges.push_back({.from = stage - 1, .to = stage});
  }
  return program;
}

std::string dump(const Program& p) {
  std::ostringstream out;
  out << p.schedule << ": " << p.stages << " stages, " << p.devices << " devices, " << p.replicas
      << " replicas, " << p.microbatches << " microbatches\n";
  for (int s = 0; s < static_cast<int>(p.placement.size()); ++s) {
    out << "stage " << s << " (" << p.segments[s] << " segments) on";
    for (const int d : p.placement[s]) out << ' ' << d;
    out << '\n';
  }
  for (const Edge& e : p.edges)
    out << "edge " << e.from << "->" << e.to << ' ' << e.forward_bytes << ' ' << e.backward_bytes
        << (e.backward ? "" : " forward only") << '\n';
  for (const Tie& t : p.ties) out << "tie " << t.first << '=' << t.second << '\n';
  for (int d = 0; d < static_cast<int>(p.lists.size()); ++d) {
    out << "device " << d << " |";
    for (const Instruction& i : p.lists[d]) out << ' ' << to_string(i);
    if (!p.budgets.empty()) out << " | budget " << p.budgets[d];
    out << '\n';
  }
  for (const Buffer& b : p.buffers)
    out << "buffer kind " << static_cast<int>(b.kind) << " device " << b.device << " stage "
        << b.stage << '.' << b.segment << " edge " << b.edge
        << (b.direction == Direction::Forward ? '>' : '<') << b.microbatch << " bytes " << b.bytes
        << " alive " << b.first << ".." << b.last << " at " << b.offset << '\n';
  return out.str();
}

}  // namespace cleave::schedule::testing
