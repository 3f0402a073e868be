#include "cleave/schedule/verifier.h"

#include <utility>

#include "cleave/schedule/checks/checks.h"

namespace cleave::schedule {

std::vector<Violation> verify(const Program& program, Level level) {
  checks::Findings findings;

  checks::check_header(program, findings);
  if (findings.any()) return findings.take();
  checks::check_operands(program, level, findings);
  if (findings.any()) return findings.take();

  checks::Mentions mentions(program);
  checks::check_segments(program, mentions, findings);
  if (findings.any()) return findings.take();

  checks::Tables tables(program, std::move(mentions));
  checks::check_compute(tables, level, findings);
  if (findings.any()) return findings.take();

  checks::check_local_edges(tables, findings);
  if (level != Level::Compute) {
    checks::check_messages(tables, findings);
    checks::check_through_host(tables, findings);
    checks::check_postings(tables, findings);
    checks::check_moves(tables, findings);
    if (level != Level::Forward) checks::check_gradients(tables, level, findings);
    checks::check_state_moves(tables, findings);
    checks::check_parameters(tables, findings);
    if (!findings.any()) checks::check_collections(tables, findings);
  }
  if (findings.any()) return findings.take();

  checks::check_progress(tables, level, findings);
  if (!program.buffers.empty() && level != Level::Compute) {
    checks::check_lifetimes(tables, findings);
    if (!findings.any()) checks::check_inventory(tables, findings);
    if (!findings.any()) checks::check_moved_buffers(tables, findings);
    if (!findings.any()) checks::check_state_buffers(tables, findings);
    if (!findings.any()) checks::check_space(program, findings);
  }
  return findings.take();
}

std::vector<Violation> verify_compute(const Program& program) {
  return verify(program, Level::Compute);
}

std::string to_string(const Program& program, const Violation& violation) {
  using cleave::detail::concat;
  const auto [device, index, reason] = violation;
  if (device < 0) return concat("program: ", reason);
  if (index < 0 || device >= std::ssize(program.lists) ||
      index >= std::ssize(program.lists[device]))
    return concat("device ", device, ": ", reason);
  return concat("device ", device, ", instruction ", index, " (",
                to_string(program.lists[device][index]), "): ", reason);
}

}  // namespace cleave::schedule
