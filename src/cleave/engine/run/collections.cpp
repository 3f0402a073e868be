#include "cleave/engine/run/collections.h"

namespace cleave::engine {

Collections::Collections(const schedule::Program& program, std::span<Stage* const> stages,
                         std::span<comm::Communicator* const> replicas)
    : replicas_(replicas.begin(), replicas.end()), pending_(stages.size()) {
  for (const int stage : program.collecting) {
    if (stages[stage] != nullptr) replicas_[stage]->make_room(1);
  }
  borders_.reserve(static_cast<std::size_t>(program.replicas) + 1);
}

void Collections::collect(const LinkedInstruction& entry, Memory& memory,
                          std::span<std::byte> on_host) {
  const CollectedRows& rows = entry.collected;
  comm::Communicator& replicas = *replicas_[entry.instruction.stage];
  const std::size_t own = rows.bytes * rows.sources.size();  // of a replica
  std::byte* to = rows.whole + static_cast<std::size_t>(replicas.rank()) * own;
  for (const std::byte* source : rows.sources) {
    memory.copy(to, source, static_cast<std::int64_t>(rows.bytes));
    to += rows.bytes;
  }
  borders_.clear();
  for (int r = 0; r <= replicas.size(); ++r) borders_.push_back(static_cast<std::size_t>(r) * own);
  pending_[entry.instruction.stage] =
      replicas.all_gather({rows.whole, borders_.back()}, borders_, {on_host});
}

void Collections::finish(int stage) {
  pending_[stage].wait();
}

}  // namespace cleave::engine
