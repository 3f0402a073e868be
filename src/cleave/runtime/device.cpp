#include "cleave/runtime/device.h"

#include <algorithm>
#include <map>
#include <span>

#include "cleave/base/hash.h"
#include "cleave/base/philox.h"
#include "cleave/base/tensor_sum.h"
#include "cleave/ops/elementwise.h"
#include "cleave/ops/parallel.h"
#include "cleave/parallel/sharded_layers.h"

namespace cleave::runtime {
namespace {

TensorState piece_of(const ParameterState& parameter, const Piece& piece) {
  const auto part = [&](View all) { return all.slice(piece.dim, piece.first, piece.extent); };
  return {.name = piece.name,
          .value = part(parameter.value),
          .master = part(parameter.master),
          .gradient = part(parameter.gradient),
          .m = part(parameter.m),
          .v = part(parameter.v),
          .dim = piece.dim,
          .start = piece.start,
          .whole = piece.whole};
}

}  // namespace

Device::Device(const CompiledStep& step, int index, int threads, comm::Communicator* world,
               const LayerFactory& make)
    : place_(step.place_of(index)), compute_(threads), arena_(step.planned_on(index)) {
  join(step, index, world);
  stages_ = make_stages(step, index, parallel::sharded_layers(make, group_.get()));
  std::vector<Stage*> stages;
  std::vector<ParameterState> bound;
  for (int s = 0; s < step.program.stages; ++s) {
    Stage* stage = stages_[s].get();
    stages.push_back(stage);
    if (stage == nullptr) continue;
    stage->bind(lasting_memory(step.program, place_, s, arena_), bound);
    bound.insert(bound.end(), stage->parameters().begin(), stage->parameters().end());
  }
  for (const ParameterState& parameter : bound) {
    const ParameterSpec& spec = *parameter.spec;
    if (parameter.borrowed) continue;
    for (const Piece& piece : spec.pieces) {
      const bool copy = piece.copy || !spec.tied_to.empty();
      (copy ? copies_ : tensors_).push_back(piece_of(parameter, piece));
    }
  }

  const std::int64_t scratch = step.kernel_scratch[place_];
  const LinkOptions options{.stages = stages, .kernel_scratch = scratch, .fold = step.fold};
  LinkedProgram linked = link(step.program, place_, options, arena_);
  LinkedProgram evaluation = link(step.evaluation, place_, options, arena_);
  if (!step.staging_bytes.empty()) {
    const std::int64_t bytes = step.staging_bytes[place_];
    const std::int64_t offset = step.planned_bytes[place_] - bytes;
    if (bytes > 0) linked.lasting.push_back({offset, bytes});
    staging_ = {arena_.at(offset), static_cast<std::size_t>(bytes)};
  }
  compute_.set_scratch({linked.scratch, static_cast<std::size_t>(scratch)});
  executor_ =
      std::make_unique<Executor>(Executor::Parts{.program = &step.program,
                                                 .device = place_,
                                                 .linked = std::move(linked),
                                                 .evaluation = std::move(evaluation),
                                                 .evaluated_at_once = step.evaluation.microbatches,
                                                 .stages = std::move(stages),
                                                 .fold = step.fold,
                                                 .tie_names = step.tie_names,
                                                 .pieces = step.pieces,
                                                 .arena = &arena_,
                                                 .compute = &compute_,
                                                 .world = world,
                                                 .peers = peers(),
                                                 .counts_loss = index % step.tensor == 0});
}

/// Forms the groups of a device along the axes of the mesh.
void Device::join(const CompiledStep& step, int index, comm::Communicator* world) {
  if (world == nullptr) return;
  if (step.tensor == 1) {
    alone_at_place_ = world;
    return;
  }
  const int number = index % step.tensor;
  std::vector<int> members;
  if (step.program.devices > 1) {
    for (int d = number; d < step.devices(); d += step.tensor) members.push_back(d);
    peers_ = world->group(members);
  }
  members.clear();
  for (int d = index - number; d < index - number + step.tensor; ++d) members.push_back(d);
  const TensorShare& share = step.shares[number].share;
  const std::int64_t sharing = share.shards / step.model.shape.kv_heads / share.local();
  group_ =
      std::make_unique<parallel::TensorGroup>(compute_, *world, members, static_cast<int>(sharing));
}

void Device::initialise(std::uint64_t seed) {
  for (const auto& stage : stages_) {
    if (stage == nullptr) continue;
    for (const ParameterState& parameter : stage->parameters()) {
      if (parameter.borrowed) continue;
      for (const Piece& piece : parameter.spec->pieces) {
        initialise(piece_of(parameter, piece), parameter.spec->init, seed);
      }
    }
  }
  refresh_values();
}

void Device::initialise(const TensorState& tensor, const Init& init, std::uint64_t seed) {
  const Philox random(seed, "init", tensor.name);
  tensor.for_each_run(tensor.master, [&](std::int64_t first, std::span<float> run) {
    ops::parallel_for(compute_, std::ssize(run), 4096, [&](std::int64_t begin, std::int64_t end) {
      const std::span<float> out =
          run.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
      if (init.deviation == 0) {
        std::ranges::fill(out, init.mean);
      } else {
        random.fill_normal(static_cast<std::uint64_t>(first + begin), out);
        for (float& value : out) value = value * init.deviation + init.mean;
      }
    });
  });
}

void Device::refresh_values() {
  for (const auto& stage : stages_) {
    if (stage == nullptr) continue;
    for (const ParameterState& parameter : stage->parameters()) {
      const bool separate = parameter.value.bytes() != parameter.master.bytes();
      if (!parameter.borrowed && separate) ops::copy(compute_, parameter.master, parameter.value);
    }
  }
}

void Device::clear_moments() {
  for (const auto* tensors : {&tensors_, &copies_}) {
    for (const TensorState& tensor : *tensors) {
      for (const View& moment : {tensor.m, tensor.v}) ops::fill(compute_, 0, moment);
    }
  }
}

std::vector<std::pair<std::string, std::uint64_t>> Device::weight_hashes() const {
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  for (const TensorState& tensor : tensors_) {
    std::uint64_t sum = 0;
    tensor.for_each_run(tensor.master, [&](std::int64_t first, std::span<float> run) {
      sum += tensor_sum(std::as_bytes(run), first);
    });
    hashes.emplace_back(tensor.name, sum);
  }
  return hashes;
}

std::int64_t Device::parameter_count() const {
  std::int64_t count = 0;
  for (const TensorState& tensor : tensors_) count += tensor.elements();
  return count;
}

std::string combine_hashes(std::span<const std::pair<std::string, std::uint64_t>> hashes) {
  std::map<std::string, std::uint64_t> sums;
  for (const auto& [name, sum] : hashes) sums[name] += sum;
  Hasher hasher;
  for (const auto& [name, sum] : sums) {
    hasher.add(name);
    hasher.add(std::as_bytes(std::span(&sum, 1)));
  }
  return to_hex(hasher.digest());
}

}  // namespace cleave::runtime
