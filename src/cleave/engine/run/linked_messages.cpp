#include "cleave/engine/run/linked_messages.h"

#include "cleave/base/check.h"
#include "cleave/engine/run/linker.h"

namespace cleave::engine {

using schedule::Buffer;
using schedule::BufferKind;
using schedule::Instruction;
using schedule::Op;

void link_messages(const schedule::Program& program, int device, Arena& host,
                   LinkedProgram& linked) {
  if (!passes_through_host(program, device)) return;
  const DeviceBuffers buffers(program, device);
  std::vector<LinkedInstruction>& list = linked.instructions;
  for (std::size_t at = 0; at < list.size(); ++at) {
    LinkedInstruction& entry = list[at];
    const Instruction& i = entry.instruction;
    const Op about = i.op == Op::Wait ? i.completes : i.op;
    if (!schedule::is_message(i)) continue;
    const BufferKind kind =
        about == Op::Send ? BufferKind::LeavingOnHost : BufferKind::ArrivingOnHost;
    const Buffer* there = buffers.of_edge(kind, i.edge, i.direction, MicrobatchId{i.microbatch});
    if (there != nullptr) entry.on_host = {there->offset, there->bytes};
    if (i.op == Op::Wait) continue;
    LinkedInstruction& move = list[i.op == Op::Send ? at - 1 : at + 1];
    CLEAVE_CHECK(schedule::is_message_move(move.instruction), to_string(i),
                 " does not pass through the host");
    move.slot = entry.slot;
    move.on_host = entry.on_host;
    ++linked.message_moves;
    if (there == nullptr) continue;
    std::byte* on_host = host.at(there->offset);
    move.copies = {{.inside = entry.message.data(),
                    .outside = on_host,
                    .bytes = static_cast<std::int64_t>(entry.message.size())}};
    entry.message = {on_host, entry.message.size()};
  }
}

}  // namespace cleave::engine
