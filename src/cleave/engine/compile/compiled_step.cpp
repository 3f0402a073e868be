#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/engine/compile/compile.h"

// What a compiled step says of its programs and devices.
namespace cleave::engine {

const std::string& CompiledStep::kind_of(int device) const {
  static const std::string cpu = "cpu";
  if (device_kinds.empty()) return cpu;
  return device_kinds.size() == 1 ? device_kinds[0] : device_kinds.at(device);
}

int CompiledStep::pattern_of(std::int64_t with_inputs) const {
  if (input_counts.empty()) return -1;
  const auto found = std::ranges::find(input_counts, with_inputs, &InputCount::microbatches);
  CLEAVE_CHECK(found != input_counts.end(), "no program is for ", with_inputs,
               " microbatches with optional inputs");
  return found + 1 == input_counts.end() ? -1 : static_cast<int>(found - input_counts.begin());
}

double CompiledStep::left_out() const {
  const double all = static_cast<double>(program.microbatches) * program.replicas;
  double steps = 0;
  double with = 0;
  for (const InputCount& count : input_counts) {
    steps += static_cast<double>(count.steps);
    with += static_cast<double>(count.microbatches) * static_cast<double>(count.steps);
  }
  return steps == 0 ? 0 : 1 - with / (all * steps);
}

int CompiledStep::evaluation_of(std::int64_t with_inputs) const {
  const auto found = std::ranges::find(evaluated_counts, with_inputs);
  return found == evaluated_counts.end() ? -1 : static_cast<int>(found - evaluated_counts.begin());
}

int CompiledStep::replica_of(int device) const {
  return schedule::Topology(program).replica[place_of(device)];
}

int CompiledStep::rank_of(int device) const {
  return schedule::Topology(program).rank(place_of(device));
}

bool CompiledStep::holds(int device, int stage) const {
  const std::vector<int>& places = program.placement[static_cast<std::size_t>(stage)];
  return std::ranges::find(places, place_of(device)) != places.end();
}

}  // namespace cleave::engine
