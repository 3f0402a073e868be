#include "cleave/schedule/program_file.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/schedule/microbatch_order.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/torch_csv.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

/// "line 3, column 7: …" with the file in front, as compilers write it.
std::string located(const std::string& name, const std::string& message) {
  int line = 0;
  int column = 0;
  int rest = 0;
  if (std::sscanf(message.c_str(), "line %d, column %d: %n", &line, &column, &rest) < 2)
    return name + ": " + message;
  return cleave::detail::concat(name, ":", line, ":", column, ": ", message.substr(rest));
}

/// The text form begins with "cleave-program", after comments if there are any.
bool is_text_form(std::string_view text) {
  constexpr std::size_t kMostComments = 1 << 16;
  text = text.substr(0, kMostComments);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (!line.empty() && !line.starts_with('#')) return line.starts_with("cleave");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

bool is_chain(const Program& program) {
  if (std::ssize(program.edges) != program.stages - 1) return false;
  for (int stage = 0; stage + 1 < program.stages; ++stage) {
    const Edge& edge = program.edges[stage];
    if (edge.from != stage || edge.to != stage + 1 || !edge.backward) return false;
  }
  return true;
}

/// Which line of a header says what a model and its passes say of a program; empty: none.
std::string_view foreign_line(const Program& p) {
  const std::pair<bool, std::string_view> lines[] = {
      {std::ranges::any_of(p.segments, [](int count) { return count != 1; }), "segments"},
      {!p.sharing.empty(), "sharing"},
      {!p.gradients.empty(), "gradients"},
      {!p.absent.empty(), "absent"},
      {!p.reads.empty(), "reads"},
      {!p.collecting.empty(), "collects"},
      {!p.through_host.empty(), "through-host"},
      {!p.ties.empty(), "tie"},
      {!p.budgets.empty(), "budget"},
      {!p.outside_budgets.empty(), "outside-budget"},
      {!p.buffers.empty(), "buffer"}};
  for (const auto& [there, line] : lines)
    if (there) return line;
  return {};
}

/// Which stages are joined, each pair once: "0>1, 0>2".
std::string joined_stages(const std::vector<Edge>& edges) {
  std::set<std::pair<int, int>> pairs;
  for (const Edge& edge : edges) pairs.emplace(edge.from, edge.to);
  std::string text;
  for (const auto& [from, to] : pairs)
    text += cleave::detail::concat(text.empty() ? "" : ", ", from, ">", to);
  return text;
}

/// A model gives the program its edges, bytes, segments and messages; what is left is the order.
void check_order(const std::string& path, const Program& program, const PipelineShape& shape) {
  require(program.replicas == 1, path, " has ", program.replicas,
          " replicas, and an order is that of one pipeline; set parallel.data instead");
  for (const auto& list : program.lists) {
    const auto other = std::ranges::find_if(
        list, [](const Instruction& i) { return i.op > Op::Backward || i.segment >= 0; });
    require(other == list.end(), path, " has ", other == list.end() ? "" : to_string(*other),
            ", and a training takes F, I, W and B of whole stages and adds the rest; leave it out");
  }
  const std::string_view line = foreign_line(program);
  require(
      line.empty(), path, " has a line '", line,
      "', and an order has none: the model and the passes of a training say that; leave it out");
  require(!shape.graph.empty() || is_chain(program), path,
          " is not a plain chain of stages, as the model of a training is; write 'edges chain'");
  require(
      std::ranges::all_of(program.edges, &Edge::backward), path,
      " has an edge that is forward-only, and which gradients flow follows from what a training "
      "trains; leave the word out");
  const std::string joined = joined_stages(shape.graph);
  require(shape.graph.empty() || joined_stages(program.edges) == joined, path, " joins stages ",
          joined_stages(program.edges), ", but the model joins ", joined,
          "; give it an edge for each of these");
}

void check_shape(const std::string& path, const Program& program, const PipelineShape& shape) {
  require(program.devices == shape.devices, path, " is for ", program.devices,
          " devices, but parallel.pipeline is ", shape.devices, "; make them equal");
  require(program.microbatches == shape.microbatches, path, " is for ", program.microbatches,
          " microbatches, but each replica has ", shape.microbatches,
          " of them; change train.batch or train.microbatch");
  require(shape.chunks == 0 || program.stages == shape.devices * shape.chunks, path, " has ",
          program.stages, " stages on ", program.devices, " devices, but parallel.chunks is ",
          shape.chunks, "; leave it out");
}

}  // namespace

std::string changed_order(const std::string& name, bool reordered) {
  if (!reordered) return {};
  return name +
         " has backwards of a stage in another order than that of microbatches; they change "
         "places, so that sums keep one order";
}

ProgramFile parse_program_file(const std::string& name, std::string_view text) {
  try {
    if (is_text_form(text)) {
      ReadProgram read = read_text(text);
      return {.program = std::move(read.program), .hash_matches = read.hash_matches};
    }
    ProgramFile file{.program = parse_torch_csv(text)};
    file.reordered = sort_backwards(file.program);
    return file;
  } catch (const UserError& error) {
    throw UserError(located(name, error.what()));
  }
}

bool names_file(std::string_view schedule) {
  const auto names = schedule_names();
  return schedule.find_first_of("./") != schedule.npos &&
         std::ranges::find(names, schedule) == names.end();
}

ProgramFile order_of(std::string_view schedule, const PipelineShape& shape) {
  if (!names_file(schedule)) return {.program = generate(schedule, shape)};
  const std::string path(schedule);
  ProgramFile file = parse_program_file(path, cleave::read_text(path));
  require(file.hash_matches, path,
          " was changed after its hash was written; remove the line 'hash ...' if that was on "
          "purpose");
  check_order(path, file.program, shape);
  check_shape(path, file.program, shape);
  const std::vector<Violation> faults = verify_compute(file.program);
  require(faults.empty(), path, ": ", faults.empty() ? "" : to_string(file.program, faults[0]));
  return file;
}

}  // namespace cleave::schedule
