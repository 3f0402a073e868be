#include "cleave/schedule/generators/building_block.h"

#include <algorithm>
#include <array>

#include "cleave/base/check.h"

namespace cleave::schedule {
namespace {

constexpr int kPeriod = 6;

struct Action {
  int time;
  Op op;
  int chunk;
};

/// The actions of microbatch 0 on `device`, by time.
std::array<Action, 6> actions(const BuildingBlock& block, int devices, DeviceId device) {
  const int below = devices - 1 - device;
  const int turn = (devices - 1) * block.down + 1;
  const int loss = turn + (devices - 1) * block.up + 1 + block.pause_at_loss;
  const int back = loss + (devices - 1) * block.down + 1 + block.pause_at_turn;
  const int f0 = device * block.down;
  const int f1 = turn + below * block.up;
  const int i1 = loss + device * block.down;
  const int i0 = back + below * block.up;

  unsigned taken = 0;
  for (int time : {f0, f1, i1, i0}) taken |= 1u << time % kPeriod;
  const auto next_free = [&](int time) {
    while (taken >> time % kPeriod & 1u) ++time;
    taken |= 1u << time % kPeriod;
    return time;
  };
  const int w1 = next_free(i1 + 1);
  const int w0 = next_free(i0 + 1);
  CLEAVE_CHECK(taken == (1u << kPeriod) - 1, "the block collides with its own repetition");

  std::array<Action, 6> all = {{{f0, Op::Forward, 0},
                                {f1, Op::Forward, 1},
                                {i1, Op::BackwardInput, 1},
                                {w1, Op::BackwardWeight, 1},
                                {i0, Op::BackwardInput, 0},
                                {w0, Op::BackwardWeight, 0}}};
  std::ranges::sort(all, {}, &Action::time);
  return all;
}

}  // namespace

Program repeat(std::string_view schedule, const PipelineShape& shape, const BuildingBlock& block) {
  Draft draft(schedule, shape, Fold::V);
  for (DeviceId device{0}; device < shape.devices; ++device) {
    auto next = actions(block, shape.devices, device);
    // One action per residue: in each period every one of them has its turn, in the same order.
    std::ranges::sort(next, {}, [](const Action& a) { return a.time % kPeriod; });
    const auto latest = std::ranges::max(next, {}, &Action::time).time;
    const int periods = latest / kPeriod + shape.microbatches;
    for (int period = 0; period < periods; ++period)
      for (const auto& [time, op, chunk] : next) {
        const MicrobatchId mb{period - time / kPeriod};
        if (mb >= 0) draft.emit(op, device, chunk, mb);
      }
  }
  return std::move(draft).finish();
}

}  // namespace cleave::schedule
