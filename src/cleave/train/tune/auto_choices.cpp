#include "cleave/train/tune/auto_choices.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "cleave/schedule/generators.h"

namespace cleave::train {
namespace {

using schedule::Recompute;

constexpr std::int64_t kMostMicrobatch = 32;
constexpr std::int64_t kMostZero = 3;

struct Option {
  std::string_view schedule;
  std::int64_t chunks = 1;
  int rank = 0;  ///< the plainer and leaner is lower
};

/// More stages on a device than a schedule wants make it so much less plain.
constexpr int kRankOfMoreChunks = 4;

/// Every schedule there is, the plainer and leaner first: it wins where two are equally fast.
std::vector<Option> options() {
  std::vector<Option> result;
  for (const schedule::Schedule& s : schedule::schedules()) {
    result.push_back({s.name, s.chunks, s.rank});
    for (int chunks = s.chunks + 1; chunks <= s.searched_chunks; ++chunks)
      result.push_back({s.name, chunks, s.rank + kRankOfMoreChunks});
  }
  std::ranges::stable_sort(result, {}, &Option::rank);
  return result;
}

std::vector<std::int64_t> choices(const Auto& fixed, std::int64_t whole, std::int64_t most) {
  if (fixed) return {*fixed};
  std::vector<std::int64_t> result;
  for (std::int64_t value = 1; value <= std::min(whole, most); ++value) {
    if (whole % value == 0) result.push_back(value);
  }
  return result;
}

/// A stage needs a segment of its own, and a given partition says how many stages there are.
bool has_stages(const Config& config, std::int64_t stages) {
  if (config.parallel.partition) return std::ssize(*config.parallel.partition) == stages;
  return stages <= config.model.layers + 2;
}

void add_schedules(Config config, std::vector<Config>& result) {
  ParallelConfig& p = config.parallel;
  const bool open = p.schedule == "auto";
  if (*p.pipeline == 1 && open && p.chunks.value_or(1) == 1) {
    p.schedule = schedule::plainest_schedule(1).name;
    p.chunks = 1;
    if (has_stages(config, 1)) result.push_back(std::move(config));
    return;
  }
  const std::string given = p.schedule;
  const Auto chunks = p.chunks;
  const std::vector<Option> listed = options();
  for (const Option& option : listed) {
    if ((!open && given != option.schedule) || chunks.value_or(option.chunks) != option.chunks)
      continue;
    p.schedule = option.schedule;
    p.chunks = option.chunks;
    if (has_stages(config, *p.pipeline * option.chunks)) result.push_back(config);
  }
  const bool is_listed = std::ranges::any_of(listed, [&](const Option& option) {
    return given == option.schedule && chunks.value_or(option.chunks) == option.chunks;
  });
  if (open || is_listed) return;
  p.chunks = chunks;
  if (has_stages(config, *p.pipeline * chunks.value_or(1))) result.push_back(std::move(config));
}

/// Tensor degrees that divide what is divided among them; to emulated devices `auto` gives whole
/// layers.
std::vector<std::int64_t> tensor_choices(const Config& config) {
  if (config.parallel.tensor) return {*config.parallel.tensor};
  if (config.devices.emulate) return {1};
  std::vector<std::int64_t> result;
  const ModelShape& m = config.model;
  for (std::int64_t t = 1; t <= config.devices.count; t *= 2) {
    if (config.devices.count % t != 0 || m.heads % t != 0 || m.kv_heads % t != 0 || m.ffn % t != 0)
      break;
    if (config.numerics.tensor_shards.value_or(t) % t == 0) result.push_back(t);
  }
  return result;
}

/// Everything that "auto" could mean for one way to divide the devices.
void add_runs(Config one, std::vector<Config>& result) {
  const std::int64_t data = *one.parallel.data;
  const std::int64_t shards = one.numerics.data_shards.value_or(data);
  one.numerics.data_shards = shards;
  one.numerics.tensor_shards = one.numerics.tensor_shards.value_or(*one.parallel.tensor);
  const std::int64_t share = one.train.batch / data;
  for (const std::int64_t microbatch : choices(one.train.microbatch, share, kMostMicrobatch)) {
    if (shards % data != 0 || one.train.batch % (microbatch * shards) != 0) continue;
    Config run = one;
    run.train.microbatch = microbatch;
    add_schedules(std::move(run), result);
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

std::vector<Config> savings(const Config& layout) {
  // Emulated devices hold no model. Where memory is no matter, ZeRO 1 may still save time.
  const bool emulated = layout.devices.emulate.has_value();
  const bool limited = !layout.devices.memory.empty() && !emulated;
  const std::int64_t most = *layout.parallel.data == 1 || emulated ? 0 : limited ? kMostZero : 1;
  const std::vector<Recompute> kinds =
      limited ? std::vector{Recompute::None, Recompute::Selective, Recompute::Full}
              : std::vector{Recompute::None};
  std::vector<Config> result;
  for (std::int64_t zero = 0; zero <= most; ++zero) {
    for (const Recompute kind : kinds) {
      Config run = layout;
      if (!layout.parallel.zero) run.parallel.zero = zero;
      if (!layout.parallel.recompute) run.parallel.recompute = std::vector{kind};
      if (std::ranges::find(result, run) == result.end()) result.push_back(std::move(run));
    }
  }
  std::ranges::stable_sort(result, {}, degree_of_saving);
  return result;
}

int degree_of_saving(const Config& run) {
  const auto& recompute = *run.parallel.recompute;
  return static_cast<int>(*run.parallel.zero) + static_cast<int>(std::ranges::max(recompute));
}

}  // namespace cleave::train
