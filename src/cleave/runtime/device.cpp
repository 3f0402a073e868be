#include "cleave/runtime/device.h"

#include <algorithm>
#include <span>

#include "cleave/base/hash.h"
#include "cleave/base/philox.h"
#include "cleave/ops/elementwise.h"
#include "cleave/ops/parallel.h"

namespace cleave::runtime {
namespace {

TensorState piece_of(const ParameterState& parameter, const Piece& piece) {
  const auto rows = [&](View whole) { return whole.slice(0, piece.first, piece.rows); };
  return {.name = piece.name,
          .shape = parameter.spec->shape.with(0, piece.rows),
          .value = rows(parameter.value),
          .master = rows(parameter.master),
          .gradient = rows(parameter.gradient),
          .m = rows(parameter.m),
          .v = rows(parameter.v)};
}

}  // namespace

Device::Device(const CompiledStep& step, int index, int threads, comm::Communicator* world,
               const LayerFactory& make)
    : index_(index),
      compute_(threads),
      arena_(step.planned_bytes[index]),
      stages_(make_stages(step, index, make)) {
  std::vector<Stage*> stages;
  std::vector<ParameterState> bound;
  for (int s = 0; s < step.program.stages; ++s) {
    Stage* stage = stages_[s].get();
    stages.push_back(stage);
    if (stage == nullptr) continue;
    stage->bind(lasting_memory(step.program, index, s, arena_), bound);
    bound.insert(bound.end(), stage->parameters().begin(), stage->parameters().end());
  }
  for (const ParameterState& parameter : bound) {
    const ParameterSpec& spec = *parameter.spec;
    if (parameter.borrowed) continue;
    for (const Piece& piece : spec.pieces) {
      TensorState tensor = piece_of(parameter, piece);
      if (!spec.tied_to.empty()) tensor.name = spec.tied_to;
      (spec.tied_to.empty() ? tensors_ : tied_copies_).push_back(std::move(tensor));
    }
  }

  const std::int64_t scratch = step.kernel_scratch[index];
  const LinkOptions options{.stages = stages, .kernel_scratch = scratch, .fold = step.fold};
  LinkedProgram linked = link(step.program, index, options, arena_);
  LinkedProgram evaluation = link(step.evaluation, index, options, arena_);
  compute_.set_scratch({linked.scratch, static_cast<std::size_t>(scratch)});
  executor_ =
      std::make_unique<Executor>(Executor::Parts{.program = &step.program,
                                                 .device = index,
                                                 .linked = std::move(linked),
                                                 .evaluation = std::move(evaluation),
                                                 .evaluated_at_once = step.evaluation.microbatches,
                                                 .stages = std::move(stages),
                                                 .fold = step.fold,
                                                 .tie_names = step.tie_names,
                                                 .names = step.tensor_names,
                                                 .arena = &arena_,
                                                 .compute = &compute_,
                                                 .world = world});
}

void Device::initialise(std::uint64_t seed) {
  for (const auto& stage : stages_) {
    if (stage == nullptr) continue;
    for (const ParameterState& parameter : stage->parameters()) {
      if (parameter.borrowed) continue;
      const ParameterSpec& spec = *parameter.spec;
      for (const Piece& piece : spec.pieces) {
        // A tied copy begins as its owner does.
        const Philox random(seed, "init", spec.tied_to.empty() ? piece.name : spec.tied_to);
        const View master = parameter.master.slice(0, piece.first, piece.rows);
        float* values = master.as<float>();
        ops::parallel_for(
            compute_, master.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
              const std::span<float> out(values + begin, static_cast<std::size_t>(end - begin));
              if (spec.init.deviation == 0) {
                std::ranges::fill(out, spec.init.mean);
              } else {
                random.fill_normal(static_cast<std::uint64_t>(begin), out);
                for (float& value : out) value = value * spec.init.deviation + spec.init.mean;
              }
            });
      }
    }
  }
  refresh_values();
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
  for (const auto* tensors : {&tensors_, &tied_copies_}) {
    for (const TensorState& tensor : *tensors) {
      for (const View& moment : {tensor.m, tensor.v})
        std::fill_n(moment.bytes(), moment.byte_count(), std::byte{0});
    }
  }
}

std::vector<std::pair<std::string, std::uint64_t>> Device::weight_hashes() const {
  std::vector<std::pair<std::string, std::uint64_t>> hashes;
  for (const TensorState& tensor : tensors_) {
    const View& master = tensor.master;
    hashes.emplace_back(tensor.name,
                        hash_of({master.bytes(), static_cast<std::size_t>(master.byte_count())}));
  }
  return hashes;
}

std::int64_t Device::parameter_count() const {
  std::int64_t count = 0;
  for (const TensorState& tensor : tensors_) count += tensor.shape.elements();
  return count;
}

std::string combine_hashes(std::vector<std::pair<std::string, std::uint64_t>> hashes) {
  std::ranges::sort(hashes);
  Hasher hasher;
  for (const auto& [name, hash] : hashes) {
    hasher.add(name);
    hasher.add(std::as_bytes(std::span(&hash, 1)));
  }
  return to_hex(hasher.digest());
}

}  // namespace cleave::runtime
