#include "cleave/train/config/config_checks.h"

#include <algorithm>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/plan/tune/layout_check.h"
#include "cleave/schedule/generators.h"
#include "cleave/schedule/program_file.h"
#include "cleave/train/config/config_problems.h"
#include "cleave/train/config/module_checks.h"

namespace cleave::train {
namespace {

void check_train(const Config& c) {
  const TrainConfig& t = c.train;
  require(t.sequence <= c.model.context, "train.sequence ", t.sequence,
          " is longer than model.context ", c.model.context,
          "; shorten the sequence or enlarge the context");
  require(t.min_lr <= t.lr, "train.min_lr ", t.min_lr, " is above train.lr ", t.lr,
          "; it is what the rate falls to, so make it smaller");
  require(t.warmup <= t.steps, "train.warmup ", t.warmup, " is more than train.steps ", t.steps,
          "; warm up for fewer steps");
  require(t.batch < std::int64_t{1} << 31 && t.steps < std::int64_t{1} << 40, "train.batch ",
          t.batch, " with train.steps ", t.steps,
          " is beyond any run; batch must be below 2^31 and steps below 2^40");
  // The tokens of a run are counted in 63 bits.
  std::int64_t tokens = 0;
  require(!__builtin_mul_overflow(t.batch, t.sequence, &tokens) &&
              !__builtin_mul_overflow(tokens, t.steps, &tokens),
          "train.steps ", t.steps, " of train.batch ", t.batch, " sequences with train.sequence ",
          t.sequence, " tokens are 2^63 tokens or more; take fewer steps");
}

void check_template(const data::ChatTemplate& chat) {
  const bool own = chat.name.empty() && chat != data::ChatTemplate();
  require(!own || (!chat.user.empty() && !chat.assistant.empty()),
          "[data.template] has no text for ", chat.assistant.empty() ? "assistant" : "user",
          "; give both user and assistant, such as assistant = \"A: {content}\\n\"");
}

/// A file has the order of one layout: nothing may be open, or be cut by what devices have.
void check_own_order(const Config& c) {
  const ParallelConfig& p = c.parallel;
  const bool uneven = (c.devices.memory.size() > 1 || c.devices.speed.size() > 1) && !p.partition;
  for (const auto& [open, key] :
       {std::pair(!p.pipeline, "parallel.pipeline"), std::pair(!p.tensor, "parallel.tensor"),
        std::pair(!p.data, "parallel.data"), std::pair(!p.zero, "parallel.zero"),
        std::pair(!p.recompute, "parallel.recompute"),
        std::pair(!c.train.microbatch, "train.microbatch"),
        std::pair(uneven, "parallel.partition")}) {
    require(!open, "parallel.schedule is the file ", p.schedule,
            ", which has the order of one layout, but ", key,
            " is left to the planner; give it a value");
  }
}

void check_schedule(const Config& c) {
  const std::string& name = c.parallel.schedule;
  if (name == "auto") return;
  if (schedule::names_file(name)) return check_own_order(c);
  schedule::schedule_named(name);
}

/// What parallel.pipeline would have to be for the axes to make `devices`, if there is such a
/// number.
std::string pipeline_for(const ParallelConfig& p, std::int64_t devices) {
  const std::int64_t others = *p.tensor * *p.data;
  if (devices % others != 0) return detail::concat("let the axes of [parallel] make ", devices);
  return detail::concat("set parallel.pipeline=", devices / others,
                        " (or data or tensor, or \"auto\")");
}

void check_axes(const Config& c, std::optional<std::int64_t> world_size) {
  const ParallelConfig& p = c.parallel;
  const bool all_known = p.pipeline && p.tensor && p.data;
  const std::int64_t known =
      all_known ? p.devices() : p.pipeline.value_or(1) * p.tensor.value_or(1) * p.data.value_or(1);
  const auto degree = [](const Auto& axis) {
    return axis ? std::to_string(*axis) : std::string("auto");
  };
  std::string product = detail::concat("pipeline ", degree(p.pipeline), " × tensor ",
                                       degree(p.tensor), " × data ", degree(p.data));
  if (p.vision_tensor || p.vision_data)
    product += detail::concat(" (", p.vision_pipeline.value_or(0), " of its stages",
                              p.vision_tensor ? detail::concat(" × tensor ", *p.vision_tensor) : "",
                              p.vision_data ? detail::concat(" × data ", *p.vision_data) : "", ")");
  if (all_known && world_size && known != *world_size) {
    throw UserError(detail::concat("mpirun or srun started ", *world_size, " processes, but ",
                                   product, " uses ", known, "; ", pipeline_for(p, *world_size),
                                   ", or start ", known));
  }
  if (all_known && !p.vision_data && !p.vision_tensor)
    plan::check_devices(*p.pipeline, *p.tensor, *p.data, c.devices.count);
  require(!all_known || known == c.devices.count, product, " makes ", known,
          " devices, but there are ", c.devices.count,
          "; change a degree, or the number of devices");
  require(all_known || c.devices.count % known == 0, product, " cannot multiply to devices.count ",
          c.devices.count, ", which is not divisible by ", known, "; change one of them");
}

/// The number of devices is checked before anything is made for each of them.
void check_count(const DevicesConfig& devices) {
  constexpr std::int64_t kMostThreads = 4096;
  constexpr std::int64_t kMostRanks = 1 << 20;
  require(devices.count <= kMostRanks, "devices.count ", devices.count,
          " is beyond any machine; at most ", kMostRanks, " are counted");
  require(devices.transport != Transport::Local || devices.count <= kMostThreads, "devices.count ",
          devices.count, " devices would be as many threads of one process, and more than ",
          kMostThreads, " help nobody; use fewer, or MPI ranks");
}

/// Where the number of layers comes from.
std::string_view layers_of(const ModelShape& model) {
  return model.vision.layers > 0 ? "the sum of those of model.vision that are computed and of model"
                                 : "model.layers";
}

void check_recompute(const Config& c) {
  if (!c.parallel.recompute || c.parallel.recompute->size() == 1) return;
  const auto layers = std::ssize(*c.parallel.recompute);
  require(layers == c.model.blocks(), "parallel.recompute lists ", layers, " choices, but ",
          layers_of(c.model), " is ", c.model.blocks(),
          "; give one for each layer, or one for all");
}

/// A scale belongs to neighbours in a row, and shares of values end anywhere.
void check_packed(const Config& c) {
  require(
      !c.packs_embedding || c.parallel.zero.value_or(0) < 3,
      "parallel.zero 3 cuts values anywhere, and model.frozen_embedding is \"int8\", whose rows "
      "stay whole; set parallel.zero to 2, or model.frozen_embedding to \"full\"");
}

void check_per_device(std::string_view key, std::size_t entries, std::int64_t count) {
  require(entries <= 1 || static_cast<std::int64_t>(entries) == count, key, " lists ", entries,
          " values for ", count, " devices; give one value, or one for each device");
}

}  // namespace

std::string reason_state_stays(const Config& c) {
  if (c.edge.averages())
    return "rounds (edge.sync_every) average it on processors; set parallel.offload to "
           "\"activations\" or \"none\"";
  if (c.devices.transport == Transport::Tcp && c.train.elastic)
    return "what is left after a lost device (train.elastic) is rebuilt from the devices' memory; "
           "set train.elastic to false, or parallel.offload to \"activations\"";
  return "";
}

namespace {

void check_outside(const Config& c) {
  check_per_device("devices.host_memory", c.devices.host_memory.size(), c.devices.count);
  const bool moves = c.parallel.offload != schedule::Offload::Nothing;
  require(moves || c.devices.spill.empty(),
          "devices.spill is for what parallel.offload moves out, ",
          "which is \"none\"; set it to \"activations\", \"optimizer\" or \"auto\", or leave "
          "devices.spill out");
  require(
      !c.devices.emulate || c.devices.spill.empty(),
      "devices.spill is a directory of a disk, and emulated devices write nothing; leave it out, "
      "and say in devices.emulate how fast they move things out, as in \",host=1GB/s\"");
  require(!c.devices.emulate || c.devices.emulate->host > 0 || !c.parallel.offload || !moves,
          "parallel.offload moves things out, and devices.emulate does not say how fast; add "
          "\",host=4GB/s\" to it, or set parallel.offload to \"none\"");
  const std::string reason = reason_state_stays(c);
  require(!c.parallel.offload || !schedule::moves_state(*c.parallel.offload) || reason.empty(),
          "parallel.offload moves optimizer state out, but ", reason);
}

void check_kinds(const Config& c) {
  check_per_device("devices.kind", c.devices.kind.size(), c.devices.count);
  const bool mixed = c.devices.accelerated() && std::ranges::count(c.devices.kind, "cpu") > 0;
  require(
      !mixed || c.numerics.exact.value_or(true),
      "devices.kind has processors and accelerators, whose bits are the same in exact arithmetic "
      "only, but numerics.exact is false; leave it out");
  require(!c.devices.accelerated() || !c.devices.emulate,
          "devices.kind has accelerators, but devices.emulate says that no device computes; leave "
          "one of them out");
  require(!c.devices.accelerated() || !c.edge.averages(),
          "devices.kind has accelerators, but edge.sync_every is ", c.edge.sync_every,
          ", and what clients train is averaged on processors; leave one of them out");
}

void check_partition(const Config& c) {
  if (!c.parallel.partition) return;
  plan::check_partition(*c.parallel.partition, c.model.blocks());
  if (c.parallel.pipeline && c.parallel.chunks && client_cuts(c).empty())
    plan::check_partition_stages(*c.parallel.partition, *c.parallel.pipeline, *c.parallel.chunks);
}

void check_grid(const Config& c) {
  const NumericsConfig& n = c.numerics;
  if (n.data_shards && c.parallel.data)
    plan::check_shards("data", *n.data_shards, c.parallel.replicas());
  if (n.tensor_shards && c.parallel.tensor)
    plan::check_shards("tensor", *n.tensor_shards, *c.parallel.tensor);
  check_vision_grid(c);
  const std::int64_t microbatch = c.train.microbatch.value_or(1);
  require(microbatch <= c.train.batch, "train.microbatch ", microbatch,
          " is more than the train.batch of ", c.train.batch, "; make it a divisor of the batch");
  plan::check_batch("train.batch", c.train.batch, microbatch, n.data_shards.value_or(1));
  plan::check_pieces("model.heads", c.model.heads, n.tensor_shards.value_or(1));
}

void check_world(const Config& c, std::int64_t world_size) {
  require(c.devices.transport == Transport::Mpi,
          "devices.transport is \"local\", but mpirun or srun started ", world_size,
          " processes; leave the key out, or start cleave without them");
  require(c.devices.count == world_size, "devices.count is ", c.devices.count,
          ", but mpirun or srun started ", world_size, " processes; make them equal");
}

}  // namespace

void check(const Config& c, std::optional<std::int64_t> world_size) {
  const ParallelConfig& p = c.parallel;
  Problems problems;
  problems.collect([&] { check(c.model); });
  problems.collect([&] { check_train(c); });
  problems.collect([&] { check_template(c.data.chat); });
  problems.collect([&] { check_schedule(c); });
  problems.collect([&] {
    if (world_size) check_world(c, *world_size);
    check_axes(c, world_size);
    check_count(c.devices);
  });
  problems.collect([&] { plan::check_zero(p.zero.value_or(0), p.data ? p.replicas() : 2); });
  problems.collect([&] { check_packed(c); });
  problems.collect([&] { check_recompute(c); });
  problems.collect(
      [&] { check_per_device("devices.memory", c.devices.memory.size(), c.devices.count); });
  problems.collect([&] { check_kinds(c); });
  problems.collect([&] { check_outside(c); });
  problems.collect(
      [&] { check_per_device("devices.speed", c.devices.speed.size(), c.devices.count); });
  problems.collect([&] { check_placement(c); });
  problems.collect([&] { check_partition(c); });
  problems.collect([&] { check_grid(c); });
  problems.report();
}

}  // namespace cleave::train
