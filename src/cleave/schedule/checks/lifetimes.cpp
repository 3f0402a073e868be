#include <algorithm>
#include <map>
#include <utility>

#include "cleave/schedule/checks/buffer_use.h"
#include "cleave/schedule/checks/checks.h"

namespace cleave::schedule::checks {
namespace {

/// use_of, where buffers of one stage and device are used alike, and to find out takes a walk over
/// all of its microbatches, once.
class Uses {
 public:
  explicit Uses(const Tables& tables) : t_(tables) {}

  Span of(const Buffer& b) {
    if (b.kind != BufferKind::Collected) return use_of(t_, b);
    const auto [found, fresh] = collected_.try_emplace({b.device, b.stage});
    if (fresh) found->second = use_of(t_, b);
    return found->second;
  }

 private:
  const Tables& t_;
  std::map<std::pair<int, int>, Span> collected_;  // device, stage
};

}  // namespace

void check_lifetimes(const Tables& tables, Findings& findings) {
  const Program& p = tables.program;
  Uses uses(tables);
  for (const Buffer& b : p.buffers) {
    const bool there = belongs(tables, b);
    const std::int64_t size = there ? std::ssize(p.lists[b.device]) : 0;
    const auto complain = [&](const auto&... parts) {
      findings.add(b.device, b.first >= 0 && b.first < size ? b.first : -1, "buffer ", text_of(b),
                   " ", parts...);
    };
    if (findings.full()) return;
    if (!there) {
      complain("belongs to nothing on this device");
      continue;
    }
    if (b.first < 0 || b.first > b.last || b.last > std::max<std::int64_t>(size - 1, 0)) {
      complain("lives from ", b.first, " to ", b.last, ", outside its device's list");
      continue;
    }
    const Span used = uses.of(b);
    if (!used.empty() && (b.first > used.first || b.last < used.last))
      complain("lives from ", b.first, " to ", b.last, ", but is used from ", used.first, " to ",
               used.last);
  }
}

}  // namespace cleave::schedule::checks
