#include "cleave/train/loop/gathered_weights.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace cleave::train {
namespace {

/// Sums by tensor, as two halves of 32 bits, whose sums over devices f64 holds exactly.
std::vector<double> halves_of(const std::vector<std::string>& names) {
  return std::vector<double>(2 * names.size());
}

void add_device(const std::vector<std::string>& names, const engine::Device& device,
                std::vector<double>& halves) {
  for (const auto& [name, hash] : device.weight_hashes()) {
    if (!device.is_owner()) break;
    const auto at = static_cast<std::size_t>(std::ranges::lower_bound(names, name) - names.begin());
    halves[2 * at] += static_cast<double>(hash >> 32);
    halves[2 * at + 1] += static_cast<double>(hash & 0xffffffff);
  }
}

std::string hash_of(const std::vector<std::string>& names, const std::vector<double>& halves) {
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  for (std::size_t i = 0; i < names.size(); ++i) {
    hashes.emplace_back(names[i], (static_cast<std::uint64_t>(halves[2 * i]) << 32) +
                                      static_cast<std::uint64_t>(halves[2 * i + 1]));
  }
  return engine::combine_hashes(hashes);
}

}  // namespace

std::string gather_weights(const engine::CompiledStep& compiled, engine::Device& device,
                           comm::Communicator& world) {
  std::vector<double> halves = halves_of(compiled.tensor_names);
  add_device(compiled.tensor_names, device, halves);
  world.combine(halves, comm::Combine::Sum);
  return hash_of(compiled.tensor_names, halves);
}

std::string shared_weights(const engine::CompiledStep& compiled, Trainer& trainer,
                           RoundExchange& exchange) {
  std::vector<double> halves = halves_of(compiled.tensor_names);
  if (engine::Device* const held = trainer.held()) {
    add_device(compiled.tensor_names, trainer.device(), halves);
    add_device(compiled.tensor_names, *held, halves);
  }
  exchange.share_numbers(halves);
  return hash_of(compiled.tensor_names, halves);
}

}  // namespace cleave::train
