#include "cleave/train/step/validation.h"

#include <algorithm>
#include <vector>

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
      source_(data, microbatch, microbatches_) {}

double Validation::mean_loss(engine::Executor& executor,
                             const std::function<void(std::int64_t sequences)>& progress) {
  const std::int64_t at_once = executor.evaluated_at_once();
  std::vector<double> sums(static_cast<std::size_t>(at_once * replicas_));
  double sum = 0;
  for (std::int64_t first = 0; first < microbatches_; first += std::ssize(sums)) {
    source_.begin_at(first + replica_ * at_once);
    executor.evaluate(source_, sums);
    // What lies past the end was computed on the last microbatch once more, and does not count.
    const std::int64_t valid = std::min<std::int64_t>(std::ssize(sums), microbatches_ - first);
    for (std::int64_t i = 0; i < valid; ++i) sum += sums[static_cast<std::size_t>(i)];
    if (progress) progress(std::min(sequences_, (first + valid) * microbatch_));
  }
  return sum / static_cast<double>(tokens_);
}

}  // namespace cleave::train
