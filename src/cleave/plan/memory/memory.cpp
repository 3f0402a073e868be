#include "cleave/plan/memory/memory.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/plan/memory/device_buffers.h"
#include "cleave/plan/memory/interval_packing.h"

namespace cleave::plan {

using schedule::Buffer;
using schedule::BufferKind;
using schedule::Program;

namespace {

// Pairs of buffers that the search for offsets may look at, all devices together: about a second.
constexpr std::int64_t kEffort = 200'000'000;

enum class Side { Device, Outside, Host };

Side side_of(const Buffer& b) {
  return is_outside(b) ? Side::Outside : is_on_host(b) ? Side::Host : Side::Device;
}

// Gives those of one memory that do not last the whole step offsets from `bottom` on. Returns the
// highest end.
std::int64_t pack(std::span<Buffer> buffers, Side side, std::int64_t bottom, std::int64_t effort) {
  std::vector<Interval> intervals;
  std::vector<Buffer*> packed;
  for (Buffer& b : buffers) {
    if (is_lasting(b) || b.kind == BufferKind::ScratchOnHost || side_of(b) != side) continue;
    intervals.push_back({b.first, b.last, b.bytes});
    packed.push_back(&b);
  }
  const Packing packing = pack_intervals(intervals, effort);
  for (std::size_t i = 0; i < packed.size(); ++i) packed[i]->offset = bottom + packing.offsets[i];
  return bottom + packing.bytes;
}

// Static buffers one behind the other, then everything else above them; what is outside has a
// memory of its own, and so has what passes through the host, scratch at the bottom there too.
// Returns the highest end in the device's memory.
std::int64_t place(std::span<Buffer> buffers, std::int64_t effort) {
  std::int64_t bottom = 0;
  for (Buffer& b : buffers) {
    if (!is_lasting(b)) continue;
    b.offset = bottom;
    bottom += aligned(b.bytes);
  }
  pack(buffers, Side::Outside, 0, effort);
  std::int64_t host_bottom = 0;
  for (Buffer& b : buffers) {
    if (b.kind != BufferKind::ScratchOnHost) continue;
    b.offset = 0;
    host_bottom = aligned(b.bytes);
  }
  pack(buffers, Side::Host, host_bottom, effort);
  return pack(buffers, Side::Device, bottom, effort);
}

// No placing of these takes less.
std::int64_t least(std::span<const Buffer> buffers) {
  std::int64_t bottom = 0;
  std::vector<Interval> intervals;
  for (const Buffer& b : buffers) {
    if (is_lasting(b))
      bottom += aligned(b.bytes);
    else if (side_of(b) == Side::Device)
      intervals.push_back({b.first, b.last, b.bytes});
  }
  return bottom + lower_bound(intervals);
}

std::vector<Buffer> plan_device(const Program& program, const schedule::Topology& topology,
                                std::span<const StageMemory> stages, int device) {
  const std::int64_t effort = kEffort / program.devices;
  std::vector<Buffer> apart = collect_buffers(program, topology, stages, device, Shares::Apart);
  const std::int64_t bytes = place(apart, effort);
  if (std::ranges::find(apart, BufferKind::Share, &Buffer::kind) == apart.end()) return apart;
  std::vector<Buffer> in_place =
      collect_buffers(program, topology, stages, device, Shares::InPlace);
  const bool less = least(in_place) < bytes && place(in_place, effort) < bytes;
  return less ? in_place : apart;
}

void plan_devices(Program& program, std::span<const StageMemory> stages, const auto& plan_one) {
  CLEAVE_CHECK(std::ssize(stages) == program.stages, stages.size(), " stages have sizes, ",
               program.stages, " are in the program");
  const schedule::Topology topology(program);
  program.buffers.clear();
  for (int d = 0; d < program.devices; ++d) {
    const std::vector<Buffer> buffers = plan_one(topology, d);
    program.buffers.insert(program.buffers.end(), buffers.begin(), buffers.end());
  }
}

}  // namespace

void plan_memory(Program& program, std::span<const StageMemory> stages) {
  plan_devices(program, stages, [&](const schedule::Topology& topology, int device) {
    return plan_device(program, topology, stages, device);
  });
}

void plan_evaluation_memory(Program& evaluation, std::span<const StageMemory> stages,
                            const Program& training) {
  plan_devices(evaluation, stages, [&](const schedule::Topology& topology, int device) {
    const bool apart = std::ranges::any_of(training.buffers, [&](const Buffer& b) {
      return b.device == device && b.kind == BufferKind::Share;
    });
    std::vector<Buffer> buffers = collect_buffers(evaluation, topology, stages, device,
                                                  apart ? Shares::Apart : Shares::InPlace);
    place(buffers, kEffort / evaluation.devices);
    return buffers;
  });
}

namespace {

std::vector<std::int64_t> highest_ends(const Program& program, Side side) {
  std::vector<std::int64_t> peaks(program.devices, 0);
  for (const Buffer& b : program.buffers)
    if (side_of(b) == side)
      peaks[b.device] = std::max(peaks[b.device], b.offset + aligned(b.bytes));
  return peaks;
}

}  // namespace

std::vector<std::int64_t> peak_bytes(const Program& program) {
  return highest_ends(program, Side::Device);
}

std::vector<std::int64_t> outside_bytes(const Program& program) {
  return highest_ends(program, Side::Outside);
}

std::vector<std::int64_t> host_bytes(const Program& program) {
  return highest_ends(program, Side::Host);
}

}  // namespace cleave::plan
