#include "cleave/schedule/checks/checks.h"

namespace cleave::schedule::checks {
namespace {

/// Whether `move` is the OUT or IN of `message`, a SEND or RECV.
bool is_move_of(const Instruction& move, const Instruction& message) {
  Instruction wanted = message;
  wanted.op = message.op == Op::Send ? Op::Out : Op::In;
  return move == wanted;
}

}  // namespace

void check_through_host(const Tables& tables, Findings& findings) {
  const Program& program = tables.program;
  if (program.through_host.empty() && !tables.moves_anything()) return;
  for (int device = 0; device < program.devices && !findings.full(); ++device) {
    const auto& list = program.lists[device];
    const bool through = passes_through_host(program, device);
    const auto at = [&](std::int64_t index) {
      return index >= 0 && index < std::ssize(list) ? &list[index] : nullptr;
    };
    for (std::int32_t k = 0; k < std::ssize(list); ++k) {
      const Instruction& i = list[k];
      if (is_message_move(i)) {
        const Instruction* message = at(i.op == Op::Out ? k + 1 : k - 1);
        const Op posts = i.op == Op::Out ? Op::Send : Op::Receive;
        if (!through)
          findings.add(device, k, "moves a message, but messages reach this device's memory");
        else if (message == nullptr || message->op != posts || !is_move_of(i, *message))
          findings.add(device, k,
                       i.op == Op::Out ? "stands not right before its SEND"
                                       : "stands not right after its RECV");
      }
      if (!through || (i.op != Op::Send && i.op != Op::Receive)) continue;
      const Instruction* move = at(i.op == Op::Send ? k - 1 : k + 1);
      if (move == nullptr || !is_move_of(*move, i))
        findings.add(device, k,
                     i.op == Op::Send ? "has no OUT before it, and no message reaches this device"
                                      : "has no IN after it, and no message reaches this device");
    }
  }
}

}  // namespace cleave::schedule::checks
