#include "cleave/engine/run/linked_moves.h"

#include <map>
#include <tuple>

#include "cleave/base/check.h"
#include "cleave/base/disk_blocks.h"

namespace cleave::engine {
namespace {

using schedule::Buffer;
using schedule::BufferKind;
using schedule::Instruction;
using schedule::Op;

/// The buffers of what one F keeps of one microbatch, or of the optimizer state of a segment.
struct KeptBuffers {
  const Buffer* kept[2] = {};  ///< for I, for W
  const Buffer* returned[2] = {};
  const Buffer* outside = nullptr;
  const Buffer* fetched = nullptr;
  int slot = -1;
};

using KeptKey = std::tuple<int, int, int>;  ///< stage, segment, microbatch or -1

std::map<KeptKey, KeptBuffers> moved_buffers(const schedule::Program& program, int device) {
  std::map<KeptKey, KeptBuffers> all;
  for (const Instruction& i : program.lists[device])
    if (i.op == Op::Out)
      all[{i.stage, i.segment, i.microbatch}].slot = static_cast<int>(all.size());
  for (const Buffer& b : program.buffers) {
    const auto found = all.find({b.stage, b.segment, b.microbatch});
    if (b.device != device || found == all.end()) continue;
    KeptBuffers& of = found->second;
    if (b.kind == BufferKind::KeptForInput) of.kept[0] = &b;
    if (b.kind == BufferKind::KeptForWeight) of.kept[1] = &b;
    if (b.kind == BufferKind::ReturnedForInput) of.returned[0] = &b;
    if (b.kind == BufferKind::ReturnedForWeight) of.returned[1] = &b;
    if (is_outside(b)) of.outside = &b;
    if (b.kind == BufferKind::FetchedState) of.fetched = &b;
  }
  return all;
}

/// One after another outside, each in whole blocks of a disk.
std::vector<Mover::Copy> copies_of(const KeptBuffers& of, Op op, Arena& arena, Arena& outside) {
  std::vector<Mover::Copy> copies;
  if (of.fetched != nullptr)
    return {{.inside = fetched_at(*of.fetched, arena),
             .outside = outside.at(of.outside->offset),
             .bytes = of.outside->bytes}};
  std::int64_t at = of.outside == nullptr ? 0 : of.outside->offset;
  for (const Buffer* inside : op == Op::Out ? of.kept : of.returned) {
    if (inside == nullptr) continue;
    copies.push_back(
        {.inside = arena.at(inside->offset), .outside = outside.at(at), .bytes = inside->bytes});
    at += disk_blocks(inside->bytes);
  }
  return copies;
}

}  // namespace

void link_moves(const schedule::Program& program, int device, Arena& arena, Arena& outside,
                LinkedProgram& linked) {
  const std::map<KeptKey, KeptBuffers> all = moved_buffers(program, device);
  linked.moves = static_cast<int>(all.size());
  if (all.empty()) return;
  for (const auto& [key, of] : all)
    if (of.fetched != nullptr) linked.resting.push_back({of.outside->offset, of.outside->bytes});
  for (LinkedInstruction& entry : linked.instructions) {
    const Instruction& i = entry.instruction;
    if (!schedule::is_move(i)) continue;
    const auto found = all.find({i.stage, i.segment, i.microbatch});
    CLEAVE_CHECK(found != all.end(), to_string(i), " moves what is not kept");
    entry.slot = found->second.slot;
    if (const Buffer* there = found->second.outside) entry.outside = {there->offset, there->bytes};
    if (i.op != Op::Wait) entry.copies = copies_of(found->second, i.op, arena, outside);
  }
}

}  // namespace cleave::engine
