#include "cleave/train/tune/auto_grid.h"

#include <algorithm>
#include <utility>

#include "cleave/train/tune/auto_space.h"

namespace cleave::train {
namespace {

constexpr std::int64_t kEnoughTokens = 512;  ///< in a microbatch, for products to be fast

/// Devices that replicas can be made of.
std::int64_t replicas_at_most(const Config& config) {
  return config.devices.count / config.parallel.pipeline.value_or(1) /
         config.parallel.tensor.value_or(1);
}

std::int64_t data_shards_of(const Config& config) {
  if (config.numerics.data_shards) return *config.numerics.data_shards;
  if (config.parallel.data) return *config.parallel.data;
  const std::int64_t microbatch = config.train.microbatch.value_or(1);
  const std::int64_t most = replicas_at_most(config);
  std::int64_t shards = 1;
  while (most % (2 * shards) == 0 && config.train.batch % (2 * shards * microbatch) == 0)
    shards *= 2;
  return shards;
}

std::int64_t microbatch_of(const Config& config, std::int64_t shards) {
  if (config.train.microbatch) return *config.train.microbatch;
  const std::int64_t share = std::max<std::int64_t>(1, config.train.batch / shards);
  std::int64_t best = 1;
  for (std::int64_t size = 2; 2 * size <= share; ++size) {
    if (best * config.train.sequence >= kEnoughTokens) break;
    if (share % size == 0) best = size;
  }
  return best;
}

bool is_open(const Config& config) {
  const bool data = !config.parallel.data && !config.numerics.data_shards;
  const bool tensor = !config.parallel.tensor && !config.numerics.tensor_shards;
  return data || tensor || !config.train.microbatch;
}

}  // namespace

std::vector<Config> grids(const Config& config) {
  if (config.parallel.any_grid || !is_open(config)) return {config};
  const std::int64_t shards = data_shards_of(config);
  const std::int64_t fewest = config.parallel.data.value_or(1);
  std::vector<Config> grids;
  const auto add = [&](std::int64_t data, std::int64_t microbatch, std::int64_t tensor) {
    Config one = config;
    if (!one.numerics.data_shards) one.numerics.data_shards = data;
    if (!one.numerics.tensor_shards)
      one.numerics.tensor_shards = one.parallel.tensor.value_or(tensor);
    if (!one.train.microbatch) one.train.microbatch = microbatch;
    if (std::ranges::find(grids, one) == grids.end()) grids.push_back(std::move(one));
  };
  add(shards, microbatch_of(config, shards), 1);
  add(shards, 1, 1);
  add(fewest, 1, 1);
  const std::int64_t most = config.devices.emulate ? 1 : config.devices.count;
  for (std::int64_t tensor = 2; tensor <= most; tensor *= 2) {
    if (!can_share(config.model, tensor)) break;
    add(fewest, 1, tensor);
  }
  return grids;
}

}  // namespace cleave::train
