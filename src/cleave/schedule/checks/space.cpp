#include <algorithm>
#include <map>

#include "cleave/base/units.h"
#include "cleave/schedule/checks/checks.h"

namespace cleave::schedule::checks {
namespace {

// Time runs along the device's list. At each instruction the buffers that begin there come in, and
// those that ended before it are out; alive ones are kept by offset, so that a newcomer can only
// overlap its two neighbours.
class Sweep {
 public:
  Sweep(const Program& program, Findings& findings) : p_(program), findings_(findings) {}

  void device(int device, std::vector<std::int32_t>& by_first) {
    std::vector<std::int32_t> by_last = by_first;
    std::ranges::sort(by_first, {}, [&](std::int32_t k) { return p_.buffers[k].first; });
    std::ranges::sort(by_last, {}, [&](std::int32_t k) { return p_.buffers[k].last; });
    alive_.clear();
    std::size_t gone = 0;
    for (const std::int32_t k : by_first) {
      for (; p_.buffers[by_last[gone]].last < p_.buffers[k].first; ++gone) leave(by_last[gone]);
      enter(device, k);
      if (findings_.full()) return;
    }
  }

 private:
  void enter(int device, std::int32_t k) {
    const Buffer& b = p_.buffers[k];
    const auto [place, fresh] = alive_.emplace(b.offset, k);
    if (!fresh) return overlap(device, b, p_.buffers[place->second]);
    if (place != alive_.begin()) {
      const Buffer& below = p_.buffers[std::prev(place)->second];
      if (below.offset + below.bytes > b.offset) return overlap(device, b, below);
    }
    const auto above = std::next(place);
    if (above != alive_.end() && b.offset + b.bytes > above->first)
      overlap(device, b, p_.buffers[above->second]);
  }

  void leave(std::int32_t k) {
    const auto place = alive_.find(p_.buffers[k].offset);
    if (place != alive_.end() && place->second == k) alive_.erase(place);
  }

  void overlap(int device, const Buffer& b, const Buffer& other) {
    findings_.add(device, b.first, "two live buffers overlap: bytes ", b.offset, " to ",
                  b.offset + b.bytes, " (from instruction ", b.first, ") and ", other.offset,
                  " to ", other.offset + other.bytes, " (from instruction ", other.first, " to ",
                  other.last, ")");
  }

  const Program& p_;
  Findings& findings_;
  std::map<std::int64_t, std::int32_t> alive_;  // offset -> buffer
};

bool check_place(const Program& p, const Buffer& b, Findings& findings) {
  const auto complain = [&](const auto&... parts) {
    findings.add(b.device, b.first < std::ssize(p.lists[b.device]) ? b.first : -1, parts...);
    return false;
  };
  if (b.bytes < 0) return complain("a buffer has ", b.bytes, " bytes");
  if (b.offset < 0) return complain("a buffer of ", b.bytes, " bytes has no offset");
  if (b.offset % kAlignment != 0)
    return complain("a buffer begins at byte ", b.offset, ", no multiple of ", kAlignment);
  const auto& budgets = is_outside(b) ? p.outside_budgets : p.budgets;
  const bool limited = !is_on_host(b) && !budgets.empty();
  const std::int64_t budget = limited ? budgets[b.device] : INT64_MAX;
  if (b.bytes > budget || b.offset > budget - b.bytes)
    return complain("a buffer of ", b.bytes, " bytes at ", b.offset, " ends beyond the device's ",
                    is_outside(b) ? "outside " : "", "budget of ", budget, " bytes");
  return true;
}

}  // namespace

void check_space(const Program& program, Findings& findings) {
  std::vector<std::vector<std::int32_t>> on_device(program.devices);
  std::vector<std::vector<std::int32_t>> outside(program.devices);
  std::vector<std::vector<std::int32_t>> on_host(program.devices);
  bool placed = true;
  for (std::int32_t k = 0; k < std::ssize(program.buffers); ++k) {
    const Buffer& b = program.buffers[k];
    placed &= check_place(program, b, findings);
    auto& memory = is_outside(b) ? outside : is_on_host(b) ? on_host : on_device;
    if (b.bytes > 0) memory[b.device].push_back(k);
  }
  if (!placed) return;
  Sweep sweep(program, findings);
  for (int device = 0; device < program.devices; ++device) {
    sweep.device(device, on_device[device]);
    sweep.device(device, outside[device]);
    sweep.device(device, on_host[device]);
  }
}

}  // namespace cleave::schedule::checks
