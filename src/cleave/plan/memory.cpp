#include "cleave/plan/memory.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/plan/device_buffers.h"
#include "cleave/plan/interval_packing.h"

namespace cleave::plan {

using schedule::Buffer;
using schedule::BufferKind;
using schedule::Program;

namespace {

// Pairs of buffers that the search for offsets may look at, all devices together: about a second.
constexpr std::int64_t kEffort = 200'000'000;

// Static buffers one behind the other, then everything else above them.
void place(std::span<Buffer> buffers, std::int64_t effort) {
  std::int64_t bottom = 0;
  std::vector<Interval> intervals;
  std::vector<Buffer*> moving;
  for (Buffer& b : buffers) {
    const bool whole_step = b.kind <= BufferKind::Optimizer || b.kind == BufferKind::Scratch;
    if (whole_step) {
      b.offset = bottom;
      bottom += aligned(b.bytes);
    } else {
      intervals.push_back({b.first, b.last, b.bytes});
      moving.push_back(&b);
    }
  }
  const Packing packing = pack_intervals(intervals, effort);
  for (std::size_t i = 0; i < moving.size(); ++i) moving[i]->offset = bottom + packing.offsets[i];
}

}  // namespace

void plan_memory(Program& program, std::span<const StageMemory> stages) {
  CLEAVE_CHECK(std::ssize(stages) == program.stages, stages.size(), " stages have sizes, ",
               program.stages, " are in the program");
  const schedule::Topology topology(program);
  program.buffers.clear();
  for (int d = 0; d < program.devices; ++d) {
    std::vector<Buffer> buffers = collect_buffers(program, topology, stages, d);
    place(buffers, kEffort / program.devices);
    program.buffers.insert(program.buffers.end(), buffers.begin(), buffers.end());
  }
}

std::vector<std::int64_t> peak_bytes(const Program& program) {
  std::vector<std::int64_t> peaks(program.devices, 0);
  for (const Buffer& b : program.buffers)
    peaks[b.device] = std::max(peaks[b.device], b.offset + aligned(b.bytes));
  return peaks;
}

}  // namespace cleave::plan
