#include "cleave/engine/run/device.h"

#include <algorithm>
#include <map>
#include <span>

#include "cleave/base/hash.h"
#include "cleave/base/tensor_sum.h"
#include "cleave/engine/compile/step_stages.h"
#include "cleave/engine/run/device_kinds.h"
#include "cleave/engine/run/linked_messages.h"
#include "cleave/engine/run/linked_moves.h"
#include "cleave/engine/run/linked_sums.h"
#include "cleave/engine/stage/initial_weights.h"
#include "cleave/engine/stage/piece_of.h"
#include "cleave/ops/elementwise.h"
#include "cleave/ops/parallel.h"
#include "cleave/parallel/same_order.h"
#include "cleave/parallel/sharded_layers.h"

namespace cleave::engine {
namespace {

/// The devices at a device's place; null if it is alone there.
std::unique_ptr<parallel::TensorGroup> group_of(const CompiledStep& step, int index,
                                                ops::Compute& compute, comm::Communicator& world,
                                                const Arena& host) {
  const std::vector<int> members = step.mesh.group_at(step.place_of(index));
  if (members.size() == 1) return nullptr;
  return std::make_unique<parallel::TensorGroup>(
      compute, world, members, parallel::sharing_devices(segments_on(step, index)),
      scratch_on_host(step.program, step.place_of(index), &host));
}

std::int64_t bytes_at(const std::vector<std::int64_t>& by_place, int place) {
  return by_place.empty() ? 0 : by_place[static_cast<std::size_t>(place)];
}

/// A device's place in a step, and the memory that its programs are linked to.
struct LinkPlace {
  const CompiledStep& step;
  int place = 0;
  LinkOptions options;
  Arena& arena;
  Arena& outside;
  Arena& host;
};

struct LinkedPrograms {
  LinkedProgram step;
  LinkedProgram evaluation;
  std::vector<LinkedProgram> patterns;
  std::vector<LinkedProgram> evaluations;
};

LinkedProgram link_step(const LinkPlace& at, const schedule::Program& program) {
  LinkedProgram made = link(program, at.place, at.options, at.arena);
  link_moves(program, at.place, at.arena, at.outside, made);
  link_messages(program, at.place, at.host, made);
  link_sums(program, at.place, at.options.stages, at.step.fold, made);
  return made;
}

LinkedProgram link_evaluation(const LinkPlace& at, const schedule::Program& program) {
  LinkedProgram made = link(program, at.place, at.options, at.arena);
  link_messages(program, at.place, at.host, made);
  return made;
}

LinkedPrograms link_all(const LinkPlace& at) {
  LinkedPrograms all{.step = link_step(at, at.step.program),
                     .evaluation = link_evaluation(at, at.step.evaluation)};
  for (const StepPattern& pattern : at.step.patterns)
    all.patterns.push_back(link_step(at, pattern.program));
  for (const StepPattern& pattern : at.step.evaluations)
    all.evaluations.push_back(link_evaluation(at, pattern.program));
  return all;
}

}  // namespace

Device::Device(const CompiledStep& step, int index, int threads, comm::Communicator& world,
               const LayerFactory& make)
    : place_(step.place_of(index)),
      world_(world),
      accelerator_(open_device(step, index)),
      compute_(threads, step.arithmetic, accelerator_.get()),
      arena_(std::make_shared<Arena>(
          step.planned_on(index), accelerator_ == nullptr ? host_memory() : accelerator_->memory(),
          bytes_at(step.staging_bytes, place_))),
      spill_(step.spill.empty() ? nullptr : std::make_unique<SpillMemory>(step.spill)),
      outside_(step.outside_bytes[place_], spill_ == nullptr ? host_memory() : *spill_),
      host_(step.host_bytes[place_]),
      peers_(world, step.mesh, index),
      group_(group_of(step, index, compute_, world, host_)) {
  stages_ = make_stages(step, index, parallel::sharded_layers(make, group_.get()));
  const int rank = step.rank_of(index);
  owner_ = rank == 0 || step.zero > 0;
  std::vector<Stage*> stages = bind_stages(step, rank);
  const std::int64_t scratch = step.kernel_scratch[place_];
  LinkedPrograms linked =
      link_all({.step = step,
                .place = place_,
                .options = {.stages = stages, .peers = peers_, .kernel_scratch = scratch},
                .arena = *arena_,
                .outside = outside_,
                .host = host_});
  std::int64_t end = step.planned_bytes[place_];
  const auto take_last = [&](std::int64_t bytes) {
    end -= bytes;
    if (bytes > 0) linked.step.lasting.push_back({end, bytes});
    return std::span(arena_->at(end), static_cast<std::size_t>(bytes));
  };
  staging_ = take_last(bytes_at(step.staging_bytes, place_));
  held_ = take_last(bytes_at(step.held_bytes, place_));
  compute_.set_scratch({linked.step.scratch, static_cast<std::size_t>(scratch)});
  executor_ = std::make_unique<Executor>(
      Executor::Parts{.program = &step.program,
                      .device = place_,
                      .linked = std::move(linked.step),
                      .evaluation = std::move(linked.evaluation),
                      .patterns = std::move(linked.patterns),
                      .evaluations = std::move(linked.evaluations),
                      .evaluated_at_once = step.evaluation.microbatches,
                      .stages = std::move(stages),
                      .fold = step.fold,
                      .tie_names = step.tie_names,
                      .pieces = step.pieces,
                      .arena = arena_.get(),
                      .outside = &outside_,
                      .host = &host_,
                      .compute = &compute_,
                      .world = &world,
                      .place = group_ == nullptr ? nullptr : &group_->members(),
                      .peers = &peers_,
                      .counts_loss = step.mesh.number_of(index) == 0,
                      .alone_at_place = group_ == nullptr});
  world.set_memory(arena_->memory());
}

/// Gives every stage its memory and lists its tensors; [stage], null where it is elsewhere. `rank`:
/// of the device among those that have its stages.
std::vector<Stage*> Device::bind_stages(const CompiledStep& step, int rank) {
  std::vector<Stage*> stages;
  std::vector<const StageParameters*> bound;
  for (StageId s{0}; s < step.program.stages; ++s) {
    Stage* stage = stages_[s].get();
    stages.push_back(stage);
    if (stage == nullptr) continue;
    stage->bind(lasting_memory(step.program, DeviceId{place_}, s, *arena_, outside_), rank, bound);
    bound.push_back(&stage->parameters());
    // What is not trained is whole on every replica, unless they share values.
    const bool first = rank == 0 || stage->parameters().layout().shares_values();
    for (const ParameterState& parameter : stage->parameters().all())
      list(parameter, first || parameter.spec->trainable);
  }
  return stages;
}

Device::~Device() {
  world_.set_memory(host_memory());
}

void Device::list(const ParameterState& parameter, bool owner) {
  const ParameterSpec& spec = *parameter.spec;
  if (parameter.borrowed) return;
  for (const Piece& piece : spec.pieces) {
    TensorState tensor = piece_of(parameter, piece, arena_->memory(), outside_);
    const bool copy = piece.copy || !spec.tied_to.empty() || !owner;
    if (tensor.elements() > 0) (copy ? copies_ : tensors_).push_back(std::move(tensor));
  }
}

void Device::for_each_fresh(const std::function<void(const TensorState&, const Init&)>& visit) {
  for (const auto& stage : stages_) {
    if (stage == nullptr) continue;
    for (const ParameterState& parameter : stage->parameters().all()) {
      if (parameter.borrowed) continue;
      for (const Piece& piece : parameter.spec->pieces) {
        const TensorState tensor = piece_of(parameter, piece, arena_->memory(), outside_);
        if (tensor.elements() > 0) visit(tensor, parameter.spec->init);
      }
    }
  }
}

void Device::initialise(std::uint64_t seed) {
  initialise_some(seed, [](const std::string&) { return true; });
  refresh_values();
}

void Device::initialise_some(std::uint64_t seed,
                             const std::function<bool(const std::string&)>& wanted) {
  for_each_fresh([&](const TensorState& tensor, const Init& init) {
    if (!wanted(tensor.name)) return;
    const InitialWeights weights(seed, tensor.name, init);
    tensor.set_weight([&](std::int64_t first, std::span<float> run) {
      ops::parallel_for(compute_, std::ssize(run), 4096, [&](std::int64_t begin, std::int64_t end) {
        weights.draw(first + begin, run.subspan(static_cast<std::size_t>(begin),
                                                static_cast<std::size_t>(end - begin)));
      });
    });
  });
}

void Device::fill_roughly() {
  for_each_fresh([&](const TensorState& tensor, const Init& init) {
    const float width = init.deviation * 3.4641f;  // of even numbers with this deviation
    tensor.set_weight([&](std::int64_t first, std::span<float> run) {
      for (std::size_t i = 0; i < run.size(); ++i) {
        const std::uint32_t bits = static_cast<std::uint32_t>(first + i) * 0x9e3779b1u;
        run[i] = (static_cast<float>(bits >> 8) * 0x1p-24f - 0.5f) * width + init.mean;
      }
    });
  });
  refresh_values();
}

void Device::refresh_values() {
  for (const auto& stage : stages_) {
    if (stage == nullptr) continue;
    for (const ParameterState& parameter : stage->parameters().all()) {
      const bool separate = parameter.master &&
                            parameter.value.bytes() != parameter.master.bytes() &&
                            !outside_.contains(parameter.master_at_rest.bytes());
      if (!parameter.borrowed && separate && parameter.elements() > 0)
        ops::copy(compute_, parameter.master, parameter.value);
    }
  }
  executor_->round_masters();
  executor_->gather_values();
}

void Device::clear_slots() {
  for (const auto* tensors : {&tensors_, &copies_}) {
    for (const TensorState& tensor : *tensors) {
      for (const SlotState& slot : tensor.slots) {
        if (!outside_.contains(slot.values.bytes())) {
          ops::fill(compute_, 0, slot.values);
          continue;
        }
        tensor.set_runs(slot.values,
                        [](std::int64_t, std::span<float> run) { std::ranges::fill(run, 0.0f); });
      }
    }
  }
}

std::vector<std::pair<std::string, std::uint64_t>> Device::weight_hashes() const {
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  for (const TensorState& tensor : tensors_) {
    std::uint64_t sum = 0;
    tensor.for_each_weight_run([&](std::int64_t first, std::span<float> run) {
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

}  // namespace cleave::engine
