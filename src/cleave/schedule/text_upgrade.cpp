#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "cleave/schedule/text_words.h"

namespace cleave::schedule {
namespace {

using Place = std::pair<int, int>;  // stage and segment

/// [stage, segment] -> the last instruction at which the memory is there that a REDUCE works in.
std::map<Place, std::size_t> ends_of_memory(const Program& program, int device) {
  std::map<Place, std::size_t> ends;
  for (const Buffer& b : program.buffers) {
    const bool of_reduce = b.kind == BufferKind::Reducing || b.kind == BufferKind::Sums;
    if (b.device != device || !of_reduce || b.last < 0) continue;
    const auto last = static_cast<std::size_t>(b.last);
    const auto [place, fresh] = ends.emplace(Place{b.stage, b.segment}, last);
    if (!fresh) place->second = std::min(place->second, last);
  }
  return ends;
}

/// Walks a list from its end and knows where the executor of version 1 waited: for sums at the next
/// TIE, NORM or STEP or where their memory ends, for parameters at the next pass that needs them.
class Waits {
 public:
  Waits(const Program& program, int device)
      : list_(program.lists[device]),
        memory_(ends_of_memory(program, device)),
        needs_sums_(list_.size()) {}

  /// [instruction] -> the WAITs in front of it; one more for the end of the list.
  std::vector<std::vector<Instruction>> find() {
    std::vector<std::vector<Instruction>> before(list_.size() + 1);
    for (std::size_t at = list_.size(); at-- > 0;) {
      const Instruction& i = list_[at];
      if (i.op == Op::Tie || i.op == Op::Norm || i.op == Op::Step) needs_sums_ = at;
      if (is_compute(i.op) || i.op == Op::Free) {
        uses_[{i.stage, i.segment}] = at;
        uses_[{i.stage, kAny}] = at;
      }
      if (i.op != Op::Reduce && i.op != Op::Gather) continue;
      before[i.op == Op::Reduce ? sum_needed(i, at) : values_needed(i)].push_back(
          {.op = Op::Wait, .completes = i.op, .stage = i.stage, .segment = i.segment});
    }
    return before;
  }

 private:
  static constexpr int kAny = -2;

  std::size_t sum_needed(const Instruction& reduce, std::size_t at) const {
    const auto end = memory_.find({reduce.stage, reduce.segment});
    if (end == memory_.end()) return needs_sums_;
    return std::min(needs_sums_, std::max(end->second, at + 1));
  }

  std::size_t values_needed(const Instruction& gather) const {
    const auto use = [&](int segment) {
      const auto found = uses_.find({gather.stage, segment});
      return found == uses_.end() ? list_.size() : found->second;
    };
    return gather.segment < 0 ? use(kAny) : std::min(use(gather.segment), use(-1));
  }

  const std::vector<Instruction>& list_;
  std::map<Place, std::size_t> memory_;
  std::map<Place, std::size_t> uses_;
  std::size_t needs_sums_;
};

void add_waits(Program& program, int device) {
  auto& list = program.lists[device];
  const auto before = Waits(program, device).find();
  std::vector<Instruction> out;
  std::vector<std::int32_t> moved_to(list.size());
  for (std::size_t at = 0; at <= list.size(); ++at) {
    out.insert(out.end(), before[at].rbegin(), before[at].rend());
    if (at == list.size()) break;
    moved_to[at] = static_cast<std::int32_t>(out.size());
    out.push_back(list[at]);
  }
  const auto move = [&](std::int32_t& position) {
    if (position >= 0 && position < std::ssize(moved_to)) position = moved_to[position];
  };
  for (Buffer& b : program.buffers) {
    if (b.device != device) continue;
    const bool to_the_end = b.last + 1 == std::ssize(list);
    move(b.first);
    move(b.last);
    if (to_the_end) b.last = static_cast<std::int32_t>(out.size()) - 1;
  }
  list = std::move(out);
}

}  // namespace

void upgrade_from_version_1(Program& program) {
  std::vector<Sharing> sharing(program.stages, Sharing::Nothing);
  for (const auto& list : program.lists)
    for (const Instruction& i : list)
      if ((i.op == Op::Gather || i.op == Op::Free) && i.stage >= 0 && i.stage < program.stages)
        sharing[i.stage] = Sharing::Values;
  if (std::ranges::count(sharing, Sharing::Values) > 0) program.sharing = std::move(sharing);
  for (int device = 0; device < program.devices; ++device) add_waits(program, device);
}

}  // namespace cleave::schedule
