#include "cleave/engine/run/messages.h"

#include <algorithm>

#include "cleave/base/check.h"

namespace cleave::engine {

Messages::Messages(const std::vector<const LinkedProgram*>& programs, comm::Communicator& world,
                   comm::Communicator* place)
    : world_(world), place_(place) {
  int slots = 0;
  for (const LinkedProgram* program : programs) {
    slots = std::max(slots, program->slots);
    for (const LinkedInstruction& entry : program->instructions)
      slices_ = std::max(slices_, entry.slices.size());
  }
  pending_.resize(static_cast<std::size_t>(slots) * slices_);
}

void Messages::post(const LinkedInstruction& entry) {
  const bool sends = entry.instruction.op == schedule::Op::Send;
  std::size_t at = static_cast<std::size_t>(entry.slot) * slices_;
  for (const Peers::Slice& slice : entry.slices) {
    const auto bytes = entry.message.subspan(slice.begin, slice.end - slice.begin);
    pending_[at++] = sends ? world_.send(bytes, slice.device, entry.tag)
                           : world_.receive(bytes, slice.device, entry.tag);
  }
}

void Messages::finish(const LinkedInstruction& wait) {
  const std::size_t first = static_cast<std::size_t>(wait.slot) * slices_;
  for (std::size_t k = 0; k < slices_; ++k) pending_[first + k].wait();
  if (wait.gathered.empty()) return;
  CLEAVE_CHECK(place_ != nullptr, to_string(wait.instruction), " came in slices to one device");
  place_->all_gather(wait.message, wait.gathered).wait();
}

}  // namespace cleave::engine
