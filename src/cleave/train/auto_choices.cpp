#include "cleave/train/auto_choices.h"

#include <algorithm>
#include <array>
#include <utility>

namespace cleave::train {
namespace {

constexpr std::int64_t kMostMicrobatch = 32;

/// Schedules that "auto" chooses from where it has axes to choose as well.
struct Option {
  const char* schedule;
  std::int64_t chunks;
};
constexpr std::array<Option, 4> kOptions = {
    {{"1f1b", 1}, {"zb-h1", 1}, {"interleaved", 2}, {"zbv", 2}}};

std::vector<std::int64_t> choices(const Auto& fixed, std::int64_t whole, std::int64_t most) {
  if (fixed) return {*fixed};
  std::vector<std::int64_t> result;
  for (std::int64_t value = 1; value <= std::min(whole, most); ++value) {
    if (whole % value == 0) result.push_back(value);
  }
  return result;
}

void add_schedules(Config config, std::vector<Config>& result) {
  ParallelConfig& p = config.parallel;
  const std::string schedule = p.schedule;
  const Auto chunks = p.chunks;
  for (const Option& option : kOptions) {
    if (schedule == "auto" && *p.pipeline > 1) {
      if (chunks && *chunks != option.chunks) continue;
      p.schedule = option.schedule;
      p.chunks = option.chunks;
    } else if (schedule == "auto") {
      p.schedule = "1f1b";
      p.chunks = 1;
    }
    const std::int64_t stages = *p.pipeline * p.chunks.value_or(1);
    if (stages <= config.model.layers + 2) result.push_back(config);
    if (schedule != "auto" || *p.pipeline == 1) return;
  }
}

/// Tensor degrees that divide what is divided among them; emulated devices have whole layers.
std::vector<std::int64_t> tensor_choices(const Config& config) {
  if (config.parallel.tensor) return {*config.parallel.tensor};
  if (config.devices.emulate) return {1};
  std::vector<std::int64_t> result;
  const ModelShape& m = config.model;
  for (std::int64_t t = 1; t <= config.devices.count; t *= 2) {
    if (config.devices.count % t != 0 || m.heads % t != 0 || m.kv_heads % t != 0 || m.ffn % t != 0)
      break;
    result.push_back(t);
  }
  return result;
}

/// Everything that "auto" could mean for one way to divide the devices.
void add_runs(Config one, std::vector<Config>& result) {
  const Config& config = one;
  const std::int64_t data = *config.parallel.data;
  const std::int64_t shards = config.numerics.data_shards.value_or(data);
  one.parallel.zero = config.parallel.zero.value_or(0);
  if (!one.parallel.recompute) one.parallel.recompute = std::vector{schedule::Recompute::None};
  one.numerics = {.data_shards = shards,
                  .tensor_shards = config.numerics.tensor_shards.value_or(*config.parallel.tensor)};
  const std::int64_t share = config.train.batch / data;
  for (const std::int64_t microbatch : choices(config.train.microbatch, share, kMostMicrobatch)) {
    if (shards % data != 0 || config.train.batch % (microbatch * shards) != 0) continue;
    Config run = one;
    run.train.microbatch = microbatch;
    add_schedules(run, result);
  }
}

}  // namespace

std::vector<Config> alternatives(const Config& config) {
  std::vector<Config> result;
  const std::int64_t count = config.devices.count;
  for (const std::int64_t tensor : tensor_choices(config)) {
    for (const std::int64_t pipeline : choices(config.parallel.pipeline, count / tensor, count)) {
      const std::int64_t data = count / tensor / pipeline;
      if (pipeline * tensor * data != count || config.parallel.data.value_or(data) != data ||
          config.train.batch % data != 0)
        continue;
      Config one = config;
      one.parallel.pipeline = pipeline;
      one.parallel.tensor = tensor;
      one.parallel.data = data;
      add_runs(std::move(one), result);
    }
  }
  return result;
}

}  // namespace cleave::train
