#include "cleave/train/tune/segment_profile.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cleave/base/hash.h"
#include "cleave/base/version.h"
#include "cleave/engine/measure/link_profile.h"
#include "cleave/engine/measure/machine.h"
#include "cleave/engine/measure/profile.h"
#include "cleave/spec/trainable.h"
#include "cleave/train/step/random_source.h"
#include "cleave/train/step/run_optimizer.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

/// What is measured, as the cache has it: F, I and W of each segment, then STEP and NORM per
/// parameter, R of each block, and latency and time per byte of messages and of sums.
class Numbers {
 public:
  explicit Numbers(std::int64_t segments)
      : segments_(static_cast<std::size_t>(segments)), values_(4 * segments_ + 4) {}

  double* segment(std::size_t index) { return &values_[3 * index]; }
  double& step() { return values_[3 * segments_]; }
  double& norm() { return values_[3 * segments_ + 1]; }
  double& recompute(std::size_t block) { return values_[3 * segments_ + 2 + block]; }
  double* link() { return &values_[4 * segments_]; }
  double* sum() { return &values_[4 * segments_ + 2]; }

  std::size_t segments() const { return segments_; }
  std::vector<double>& all() { return values_; }

 private:
  std::size_t segments_;
  std::vector<double> values_;
};

SegmentProfile profile_of(Numbers n) {
  const auto segment = [&](std::size_t index) {
    const double* times = n.segment(index);
    return plan::StageCosts{.forward = times[0], .input = times[1], .weight = times[2]};
  };
  SegmentProfile profile{.embedding = segment(0),
                         .blocks = {},
                         .head = segment(n.segments() - 1),
                         .step = n.step(),
                         .norm = n.norm(),
                         .link = {n.link()[0], n.link()[1]},
                         .sum = {n.sum()[0], n.sum()[1]}};
  for (std::size_t s = 1; s + 1 < n.segments(); ++s) profile.blocks.push_back(segment(s));
  return profile;
}

/// Whether the same layers stand in both, so that measuring one is measuring the other.
bool are_alike(const SegmentSpec& a, const SegmentSpec& b) {
  return parameter_count(a) == parameter_count(b) &&
         std::ranges::equal(a.layers, b.layers, {}, &LayerSpec::kind, &LayerSpec::kind);
}

/// Whether the blocks of each module are alike, and learn or pass gradients on alike.
bool has_alike_blocks(const Graph& model) {
  const std::vector<bool> wants = wants_gradients(model);
  std::size_t first = model.segments.size();
  for (std::size_t s = 0; s < model.segments.size(); ++s) {
    const SegmentSpec& block = model.segments[s];
    if (!block.block) continue;
    if (first == model.segments.size() || block.module != model.segments[first].module) first = s;
    if (!are_alike(block, model.segments[first]) || wants[s] != wants[first] ||
        trained_count({&block, 1}) != trained_count({&model.segments[first], 1}))
      return false;
  }
  return true;
}

/// Blocks of each module that are measured where all are alike: something may go with the first and
/// with the last of a module that has neighbours.
constexpr std::int64_t kMeasuredOfModule = 2;

/// How many of a module's blocks are measured, if all of them are alike.
std::int64_t measured(std::int64_t blocks) {
  return std::min(blocks, kMeasuredOfModule);
}

ModelShape with_few_blocks(ModelShape model) {
  if (model.vision.layers == 0) {
    model.layers = 1;
    return model;
  }
  const std::int64_t tower = model.blocks() - model.layers;  // without what is not computed of it
  model.vision.layers += measured(tower) - tower;
  model.layers = measured(model.layers);
  return model;
}

/// The model, with few blocks where all are alike, on one device, each part that can be cut off a
/// stage of its own.
Config stage_by_stage(const Config& config, schedule::Recompute recompute) {
  Config small = config;
  if (has_alike_blocks(model_of(config))) small.model = with_few_blocks(config.model);
  small.train.batch = *config.train.microbatch;
  small.devices = {
      .count = 1, .threads = config.devices.threads, .transport = config.devices.transport};
  small.parallel = {};
  small.parallel.chunks = small.model.blocks() + 2;
  small.parallel.schedule = "interleaved";
  small.parallel.partition.emplace(small.model.blocks() + 2, 1);
  small.parallel.partition->front() = 0;
  small.parallel.partition->back() = 0;
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
                    numbers.link());
}

Numbers measure(const Config& small, comm::Launcher& launcher) {
  const engine::CompiledStep step = compile_step(small);
  comm::LocalLauncher here;
  comm::Communicator& alone = here.processes();
  engine::Device device(step, 0, static_cast<int>(small.devices.threads), alone);
  RandomSource source(1, step.model);
  RunOptimizer optimizer(small.train);
  optimizer.begin_step(0);
  const plan::Costs costs = engine::profile(
      step, device, {.source = &source, .optimizer = &optimizer}, alone, {.steps = 1});
  Numbers numbers(std::ssize(costs.stages));
  for (std::size_t s = 0; s < numbers.segments(); ++s) {
    const plan::StageCosts& stage = costs.stages[s];
    std::ranges::copy(std::array{stage.forward, stage.input, stage.weight}, numbers.segment(s));
    if (s > 0 && s + 1 < numbers.segments()) numbers.recompute(s - 1) = stage.recompute;
  }
  const double parameters = static_cast<double>(trained_count(step.model.segments));
  numbers.step() = costs.steps[0] / parameters;
  numbers.norm() = costs.norm / parameters;
  if (launcher.devices()) {
    measure_links(numbers, launcher.processes());
    return numbers;
  }
  launcher.run(2, 1, [&](comm::Communicator& pair) {
    Numbers mine = numbers;
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

std::optional<Numbers> read_numbers(const fs::path& path, std::int64_t segments) {
  std::ifstream file(path);
  Numbers numbers(segments);
  for (double& number : numbers.all()) file >> number;
  return file ? std::optional(numbers) : std::nullopt;
}

/// A cache that cannot be written only costs time.
void write_numbers(const fs::path& path, std::span<const double> numbers) {
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
                                       : stages / static_cast<double>(config.model.blocks());
  SegmentProfile profile;
  profile.blocks = {
      {.forward = times.f * share, .input = times.i * share, .weight = times.w * share}};
  return profile;
}

/// [block] of `all` from those of `few`, of which all but the first and the last of a module stand
/// for every block between them. One stands for all of a model without modules.
template <class T>
std::vector<T> repeated(const std::vector<T>& blocks, const ModelShape& few,
                        const ModelShape& all) {
  if (few.vision.layers == 0 || few == all) return blocks;
  std::vector<T> result;
  // What goes with the last block of the tower is the tower's end; what goes with the first of the
  // language model is the projector and the joint.
  const std::int64_t tower = few.blocks() - few.layers;
  for (std::int64_t i = 0; i + 1 < all.blocks() - all.layers; ++i) result.push_back(blocks[0]);
  result.push_back(blocks[tower - 1]);
  result.push_back(blocks[tower]);
  for (std::int64_t i = 1; i < all.layers; ++i) result.push_back(blocks.back());
  return result;
}

Numbers find_or_measure(const Config& small, comm::Launcher& launcher) {
  const std::optional<fs::path> directory = cache_directory();
  const fs::path path = directory ? *directory / ("profile-" + key_of(small)) : fs::path();
  std::optional<Numbers> numbers =
      directory ? read_numbers(path, small.model.blocks() + 2) : std::nullopt;
  // If one device has to measure, all do: measuring beside idle cores is something else than
  // measuring beside busy ones.
  std::array<double, 1> missing = {numbers ? 0.0 : 1.0};
  launcher.processes().combine(missing, comm::Combine::Max);
  if (missing[0] > 0) {
    numbers = measure(small, launcher);
    if (directory) write_numbers(path, numbers->all());
  }
  launcher.processes().combine(numbers->all(), comm::Combine::Max);
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
  const Config small = stage_by_stage(config, schedule::Recompute::None);
  SegmentProfile profile = profile_of(find_or_measure(small, launcher));
  profile.blocks = repeated(profile.blocks, small.model, config.model);
  return profile;
}

std::vector<double> profile_recompute(const Config& config, schedule::Recompute kind,
                                      comm::Launcher& launcher) {
  const Config small = stage_by_stage(config, kind);
  Numbers numbers = find_or_measure(small, launcher);
  std::vector<double> seconds;
  for (std::size_t block = 0; block + 2 < numbers.segments(); ++block)
    seconds.push_back(numbers.recompute(block));
  return repeated(seconds, small.model, config.model);
}

}  // namespace cleave::train
