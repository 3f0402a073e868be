#include "cleave/train/step/validation.h"

#include <algorithm>
#include <vector>

#include "cleave/spec/image_layers.h"

namespace cleave::train {
namespace {

std::int64_t microbatches_in(const data::Dataset& data, std::int64_t microbatch) {
  const bool filled = data.tail() == data::Tail::FilledUp;
  return (data.windows() + (filled ? microbatch - 1 : 0)) / microbatch;
}

}  // namespace

Validation::Validation(const data::Dataset& data, const engine::CompiledStep& compiled, int device,
                       std::int64_t microbatch)
    : replicas_(compiled.program.replicas),
      replica_(compiled.replica_of(device)),
      microbatch_(microbatch),
      microbatches_(microbatches_in(data, microbatch)),
      sequences_(std::min(data.windows(), microbatches_ * microbatch)),
      tokens_(data.targets(sequences_)),
      counts_hits_(counts_hits(compiled.model)),
      source_(data, compiled.model, microbatch, microbatches_) {}

Evaluation Validation::run(engine::Executor& executor,
                           const std::function<void(std::int64_t sequences)>& progress) {
  const std::int64_t at_once = executor.evaluated_at_once();
  std::vector<engine::MicrobatchSums> sums(static_cast<std::size_t>(at_once * replicas_));
  engine::MicrobatchSums all;
  for (std::int64_t first = 0; first < microbatches_; first += std::ssize(sums)) {
    source_.begin_at(first + replica_ * at_once);
    executor.evaluate(source_, sums);
    // What lies past the end was computed on the last microbatch once more, and does not count.
    const std::int64_t valid = std::min<std::int64_t>(std::ssize(sums), microbatches_ - first);
    for (std::int64_t i = 0; i < valid; ++i) {
      all.loss += sums[static_cast<std::size_t>(i)].loss;
      all.hits += sums[static_cast<std::size_t>(i)].hits;
    }
    if (progress) progress(std::min(sequences_, (first + valid) * microbatch_));
  }
  const auto predicted = static_cast<double>(tokens_);
  Evaluation evaluation{.loss = all.loss / predicted};
  if (counts_hits_) evaluation.accuracy = all.hits / predicted;
  return evaluation;
}

}  // namespace cleave::train
