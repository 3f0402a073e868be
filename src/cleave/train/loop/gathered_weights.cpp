#include "cleave/train/loop/gathered_weights.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace cleave::train {

/// Sums by tensor, exchanged as two halves of 32 bits, whose sums over devices f64 holds exactly.
std::string gather_weights(const engine::CompiledStep& compiled, engine::Device& device,
                           comm::Communicator& world) {
  const auto& names = compiled.tensor_names;
  std::vector<double> halves(2 * names.size());
  for (const auto& [name, hash] : device.weight_hashes()) {
    if (!device.is_owner()) break;
    const auto at = static_cast<std::size_t>(std::ranges::lower_bound(names, name) - names.begin());
    halves[2 * at] += static_cast<double>(hash >> 32);
    halves[2 * at + 1] += static_cast<double>(hash & 0xffffffff);
  }
  world.combine(halves, comm::Combine::Sum);
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  for (std::size_t i = 0; i < names.size(); ++i) {
    hashes.emplace_back(names[i], (static_cast<std::uint64_t>(halves[2 * i]) << 32) +
                                      static_cast<std::uint64_t>(halves[2 * i + 1]));
  }
  return engine::combine_hashes(hashes);
}

}  // namespace cleave::train
