#include "cleave/engine/run/linked_program.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "cleave/base/check.h"
#include "cleave/base/disk_blocks.h"
#include "cleave/base/units.h"
#include "cleave/engine/run/linker.h"

namespace cleave::engine {
namespace {

using plan::Region;
using schedule::Buffer;
using schedule::BufferKind;
using schedule::Direction;
using schedule::Instruction;
using schedule::Op;

/// Numbers the messages in flight, so that a WAIT finds its SEND or RECV without a search.
class Slots {
 public:
  int take(const Instruction& post) {
    int slot = free_.empty() ? count_++ : free_.back();
    if (!free_.empty()) free_.pop_back();
    in_flight_[key(post, post.op)] = slot;
    return slot;
  }
  int give_back(const Instruction& wait) {
    const auto found = in_flight_.find(key(wait, wait.completes));
    CLEAVE_CHECK(found != in_flight_.end(), to_string(wait), " completes nothing");
    const int slot = found->second;
    in_flight_.erase(found);
    free_.push_back(slot);
    return slot;
  }
  int count() const { return count_; }

 private:
  using Key = std::tuple<Op, int, Direction, int>;
  static Key key(const Instruction& i, Op op) { return {op, i.edge, i.direction, i.microbatch}; }

  std::map<Key, int> in_flight_;
  std::vector<int> free_;
  int count_ = 0;
};

/// Where the buffers of a device are, and which instructions they live between.
void link_buffers(const schedule::Program& program, int device, Arena& arena,
                  LinkedProgram& linked) {
  for (const Buffer& buffer : program.buffers) {
    if (buffer.device != device) continue;
    const Block block{buffer.offset, buffer.bytes};
    std::int64_t& planned = is_outside(buffer)   ? linked.planned_outside_bytes
                            : is_on_host(buffer) ? linked.planned_host_bytes
                                                 : linked.planned_bytes;
    planned = std::max(planned, buffer.offset + aligned(buffer.bytes));
    if (buffer.kind == BufferKind::ScratchOnHost) linked.scratch_on_host = block;
    if (is_exchange_on_host(buffer)) {
      linked.instructions[buffer.first].on_host = linked.instructions[buffer.last].on_host = block;
      ++linked.exchanges_on_host;
    }
    if (is_outside(buffer) || is_on_host(buffer)) continue;
    if (is_lasting(buffer)) {
      linked.lasting.push_back(block);
      if (buffer.kind == BufferKind::Scratch) {
        linked.scratch = arena.at(buffer.offset);
        linked.scratch_bytes = buffer.bytes;
      }
      continue;
    }
    linked.instructions[buffer.first].acquire.push_back(block);
    linked.instructions[buffer.last].release.push_back(block);
  }
}

/// A compute instruction after `before`; null: it is the first of its list.
void link_compute(const Linker& linker, const LinkOptions& options, const Instruction* before,
                  std::byte* work, LinkedInstruction& entry) {
  const Instruction& instruction = entry.instruction;
  entry.stage = options.stages[instruction.stage];
  entry.pass.segment = std::max(instruction.segment, 0);
  if (entry.stage != nullptr) linker.join(entry);
  entry.pass.frame[static_cast<int>(Region::Work)] = work;
  entry.pass.collected = linker.collected(instruction);
  entry.pass.number = linker.number_of(instruction.microbatch);
  entry.pass.begins_step = entry.pass.collected != nullptr && instruction.op == Op::Forward &&
                           before != nullptr &&
                           !(before->op == Op::Forward && before->segment == instruction.segment);
}

}  // namespace

LinkedProgram link(const schedule::Program& program, int device, const LinkOptions& options,
                   Arena& arena) {
  const Linker linker(program, device, arena);
  LinkedProgram linked;
  const auto& list = program.lists[device];
  linked.instructions.resize(list.size());
  link_buffers(program, device, arena, linked);
  Slots slots;
  for (std::size_t i = 0; i < list.size(); ++i) {
    LinkedInstruction& entry = linked.instructions[i];
    entry.instruction = list[i];
    if (schedule::is_compute(list[i].op)) {
      link_compute(linker, options, i > 0 ? &list[i - 1] : nullptr,
                   linked.scratch + options.kernel_scratch, entry);
    } else if (list[i].op == Op::Send || list[i].op == Op::Receive) {
      entry.message = linker.message(list[i]);
      entry.slices = linker.slices(list[i], options.peers);
      entry.tag = linker.tag(list[i]);
      entry.slot = slots.take(list[i]);
    } else if (list[i].op == Op::Wait && schedule::is_message(list[i])) {
      entry.slot = slots.give_back(list[i]);
      entry.gathered = linker.gathered_slices(list[i], options.peers);
      if (!entry.gathered.empty()) entry.message = linker.message(list[i]);
    } else if (list[i].op == Op::Reduce) {
      entry.workspace = linker.workspace(list[i]);
    } else if (list[i].op == Op::Collect) {
      entry.collected = linker.collection(list[i], options.stages[list[i].stage]);
    } else if (list[i].op == Op::Gather) {
      entry.workspace = linker.gathered(static_cast<int>(i));
    }
  }
  linked.slots = slots.count();
  return linked;
}

std::span<std::byte> scratch_on_host(const schedule::Program& program, int device,
                                     const Arena* host) {
  for (const Buffer& buffer : program.buffers)
    if (host != nullptr && buffer.device == device && buffer.kind == BufferKind::ScratchOnHost)
      return {host->at(buffer.offset), static_cast<std::size_t>(buffer.bytes)};
  return {};
}

std::byte* fetched_at(const Buffer& buffer, const Arena& arena) {
  const auto address = reinterpret_cast<std::uintptr_t>(arena.at(buffer.offset));
  return arena.at(buffer.offset + disk_blocks(static_cast<std::int64_t>(address)) -
                  static_cast<std::int64_t>(address));
}

LastingMemory lasting_memory(const schedule::Program& program, DeviceId device, StageId stage,
                             Arena& arena, Arena& outside) {
  const DeviceBuffers buffers(program, device);
  const auto lasting = [&](BufferKind kind, SegmentId segment) {
    return buffers.of_stage(kind, stage, segment, MicrobatchId{-1});
  };
  const auto at = [&](BufferKind kind, SegmentId segment = SegmentId{-1}) {
    const Buffer* buffer = lasting(kind, segment);
    return buffer == nullptr ? nullptr : arena.at(buffer->offset);
  };
  LastingMemory memory{at(BufferKind::Weights), at(BufferKind::Gradients),
                       at(BufferKind::Optimizer)};
  bool moves = false;
  for (SegmentId segment{0}; segment < program.segments[stage]; ++segment) {
    const SegmentId named = program.segments[stage] > 1 ? segment : SegmentId{-1};
    memory.sums.push_back(at(BufferKind::Sums, named));
    memory.shares.push_back(at(BufferKind::Share, named));
    const Buffer* fetched = lasting(BufferKind::FetchedState, named);
    const Buffer* stored = lasting(BufferKind::StoredState, named);
    memory.fetched.push_back(fetched == nullptr ? nullptr : fetched_at(*fetched, arena));
    memory.stored.push_back(stored == nullptr ? nullptr : outside.at(stored->offset));
    moves |= stored != nullptr;
  }
  if (!moves) memory.fetched = memory.stored = {};
  memory.memory = &arena.memory();
  return memory;
}

}  // namespace cleave::engine
