#include "cleave/train/tune/segment_profile.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include <fmt/format.h>
#include <unistd.h>

#include "cleave/base/hash.h"
#include "cleave/base/version.h"
#include "cleave/engine/measure/link_profile.h"
#include "cleave/engine/measure/machine.h"
#include "cleave/engine/measure/profile.h"
#include "cleave/train/step/random_source.h"
#include "cleave/train/step/run_optimizer.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

/// F, I and W of embedding, block and head, then STEP and NORM per parameter, R of the block, and
/// latency and time per byte of messages and of sums.
using Numbers = std::array<double, 16>;
constexpr int kRecomputing = 11, kLink = 12, kSum = 14;

SegmentProfile profile_of(const Numbers& n) {
  const auto segment = [&](int first) {
    return plan::StageCosts{.forward = n[first], .input = n[first + 1], .weight = n[first + 2]};
  };
  return {segment(0),
          segment(3),
          segment(6),
          n[9],
          n[10],
          {n[kLink], n[kLink + 1]},
          {n[kSum], n[kSum + 1]}};
}

/// The model with one block, on one device, each segment a stage of its own.
Config one_block(const Config& config, schedule::Recompute recompute) {
  Config small = config;
  small.model.layers = 1;
  small.train.batch = *config.train.microbatch;
  small.devices = {
      .count = 1, .threads = config.devices.threads, .transport = config.devices.transport};
  small.parallel = {};
  small.parallel.chunks = 3;
  small.parallel.schedule = "interleaved";
  small.parallel.partition = std::vector<std::int64_t>{0, 1, 0};
  small.parallel.recompute = std::vector{recompute};
  small.numerics.data_shards = 1;
  small.numerics.tensor_shards = 1;
  return small;
}

/// Between the first two devices of `world`.
void measure_links(Numbers& numbers, comm::Communicator& world) {
  if (world.size() == 1) return;
  const plan::LinkCosts link = engine::profile_link(world, 0, 1);
  const plan::LinkCosts sum = engine::profile_sum(world, 0, 1);
  std::ranges::copy(std::array{link.latency, link.per_byte, sum.latency, sum.per_byte},
                    numbers.begin() + kLink);
}

Numbers measure(const Config& small, comm::Launcher& launcher) {
  const engine::CompiledStep step = compile_step(small);
  comm::LocalLauncher here;
  comm::Communicator& alone = here.processes();
  engine::Device device(step, 0, static_cast<int>(small.devices.threads), alone);
  device.initialise(1);
  RandomSource source(1, step.model);
  RunOptimizer optimizer(small.train);
  optimizer.begin_step(0);
  const plan::Costs costs = engine::profile(
      step, device, {.source = &source, .optimizer = &optimizer}, alone, {.steps = 1});
  Numbers numbers{};
  for (int s = 0; s < 3; ++s) {
    numbers[3 * s] = costs.stages[s].forward;
    numbers[3 * s + 1] = costs.stages[s].input;
    numbers[3 * s + 2] = costs.stages[s].weight;
  }
  const double parameters = static_cast<double>(device.parameter_count());
  numbers[9] = costs.steps[0] / parameters;
  numbers[10] = costs.norm / parameters;
  numbers[kRecomputing] = costs.stages[1].recompute;
  if (launcher.devices()) {
    measure_links(numbers, launcher.processes());
    return numbers;
  }
  launcher.run(2, 1, [&](comm::Communicator& pair) {
    Numbers mine{};
    measure_links(pair.rank() == 0 ? numbers : mine, pair);
  });
  return numbers;
}

/// Nothing if the system does not say where such files go.
std::optional<fs::path> cache_directory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0')
    return fs::path(cache) / "cleave";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / ".cache" / "cleave";
  return std::nullopt;
}

std::string key_of(Config small) {
  small.data = {};
  small.train = {.batch = small.train.batch,
                 .microbatch = small.train.microbatch,
                 .sequence = small.train.sequence,
                 .dtype = small.train.dtype,
                 .optimizer = small.train.optimizer,
                 .loss_blocks = small.train.loss_blocks};
  const engine::Machine machine = engine::look_at_machine();
  Hasher hasher;
  for (const std::string& part :
       {std::string(version()), machine.processor, machine.instructions.simd,
        machine.instructions.onednn, std::to_string(machine.allowed), to_toml(small)}) {
    hasher.add(part);
    hasher.add("\n");
  }
  return to_hex(hasher.digest());
}

std::optional<Numbers> read_numbers(const fs::path& path) {
  std::ifstream file(path);
  Numbers numbers{};
  for (double& number : numbers) file >> number;
  return file ? std::optional(numbers) : std::nullopt;
}

/// A cache that cannot be written only costs time.
void write_numbers(const fs::path& path, const Numbers& numbers) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  const fs::path fresh = path.string() + fmt::format(".{}", ::getpid());
  std::ofstream file(fresh);
  for (const double number : numbers) file << fmt::format("{}\n", number);
  file.close();
  if (file) fs::rename(fresh, path, ignored);
}

/// Every device takes its share of f, i and w per microbatch, whatever the model; or every layer
/// takes them per sequence.
SegmentProfile emulated(const Config& config) {
  const Emulation& times = *config.devices.emulate;
  const double stages = static_cast<double>(config.parallel.pipeline.value_or(1));
  const double share = times.per_layer ? static_cast<double>(*config.train.microbatch)
                                       : stages / static_cast<double>(config.model.layers);
  SegmentProfile profile;
  profile.block = {.forward = times.f * share, .input = times.i * share, .weight = times.w * share};
  return profile;
}

Numbers find_or_measure(const Config& small, comm::Launcher& launcher) {
  const std::optional<fs::path> directory = cache_directory();
  const fs::path path = directory ? *directory / ("profile-" + key_of(small)) : fs::path();
  std::optional<Numbers> numbers = directory ? read_numbers(path) : std::nullopt;
  // If one device has to measure, all do: measuring beside idle cores is something else than
  // measuring beside busy ones.
  std::array<double, 1> missing = {numbers ? 0.0 : 1.0};
  launcher.processes().combine(missing, comm::Combine::Max);
  if (missing[0] > 0) {
    numbers = measure(small, launcher);
    if (directory) write_numbers(path, *numbers);
  }
  launcher.processes().combine(*numbers, comm::Combine::Max);
  return *numbers;
}

}  // namespace

void forget_profiles() {
  const std::optional<fs::path> directory = cache_directory();
  if (!directory) return;
  std::error_code ignored;
  std::vector<fs::path> profiles;
  for (const fs::directory_entry& entry : fs::directory_iterator(*directory, ignored)) {
    if (entry.path().filename().string().starts_with("profile-")) profiles.push_back(entry.path());
  }
  for (const fs::path& path : profiles) fs::remove(path, ignored);
}

SegmentProfile profile_segments(const Config& config, comm::Launcher& launcher) {
  if (config.devices.emulate) return emulated(config);
  return profile_of(find_or_measure(one_block(config, schedule::Recompute::None), launcher));
}

double profile_recompute(const Config& config, schedule::Recompute kind, comm::Launcher& launcher) {
  return find_or_measure(one_block(config, kind), launcher)[kRecomputing];
}

}  // namespace cleave::train
