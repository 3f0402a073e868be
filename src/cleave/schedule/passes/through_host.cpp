#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/schedule/passes/pass.h"

// Where no message reaches a device's memory, each passes through the host's:
//
//   F  OUT  SEND  ...  WAIT:SEND        RECV  IN  ...  WAIT:RECV  F
//
// SEND begins once OUT has moved what it carries, IN moves what has arrived, and neither holds up
// what the device computes: the WAIT of the message completes both.

namespace cleave::schedule {
namespace {

std::vector<Instruction> with_message_moves(const std::vector<Instruction>& list) {
  std::vector<Instruction> out;
  out.reserve(list.size() + list.size() / 2);
  const auto move = [&](Instruction message, Op op) {
    message.op = op;
    out.push_back(message);
  };
  for (const Instruction& i : list) {
    if (i.op == Op::Send) move(i, Op::Out);
    out.push_back(i);
    if (i.op == Op::Receive) move(i, Op::In);
  }
  return out;
}

}  // namespace

Program pass_through_host(Program program, const LowerOptions& options) {
  program.through_host = options.through_host;
  for (const int device : program.through_host) {
    CLEAVE_CHECK(0 <= device && device < program.devices, "device ", device, " of ",
                 program.devices);
    program.lists[device] = with_message_moves(program.lists[device]);
  }
  return program;
}

}  // namespace cleave::schedule
