#include "cleave/train/step/validation.h"

#include <algorithm>
#include <numeric>

#include "cleave/spec/image_layers.h"
#include "cleave/train/step/dealing.h"

namespace cleave::train {
namespace {

/// A loss over all samples of a step is one over as many of those held out, or none.
std::int64_t whole_steps(std::int64_t microbatches, const engine::CompiledStep& compiled) {
  if (compiled.program.collecting.empty()) return microbatches;
  const std::int64_t of_step =
      static_cast<std::int64_t>(compiled.program.replicas) * compiled.evaluation.microbatches;
  return microbatches / of_step * of_step;
}

/// Windows with images first, the others after them, each in their own order.
std::vector<std::int64_t> by_content(const data::Dataset& data, std::int64_t windows) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(windows));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_partition(order, [&](std::int64_t w) { return data.images(w) > 0; });
  return order;
}

}  // namespace

Validation::Validation(const data::Dataset& data, const engine::CompiledStep& compiled, int device,
                       std::int64_t microbatch, std::span<const std::int64_t> clients)
    : compiled_(&compiled),
      replicas_(compiled.program.replicas),
      replica_(compiled.replica_of(device)),
      microbatch_(microbatch),
      own_(clients.empty() ? 0 : static_cast<std::size_t>(replicas_)),
      counts_hits_(counts_hits(compiled.model)) {
  const bool filled = data.tail() == data::Tail::FilledUp;
  const std::int64_t everybody[] = {data.windows()};
  const std::span<const std::int64_t> owners = clients.empty() ? everybody : clients;
  std::vector<std::int64_t> begins;
  std::int64_t before = 0;
  for (std::size_t owner = 0; owner < owners.size(); ++owner) {
    const std::int64_t windows = owners[owner];
    const std::int64_t count =
        whole_steps((windows + (filled ? microbatch - 1 : 0)) / microbatch, compiled);
    if (!own_.empty()) {
      Run& run = own_[owner * own_.size() / owners.size()];
      if (run.count == 0) run.first = std::ssize(begins);
      run.count += count;
    }
    for (std::int64_t i = 0; i < count; ++i) begins.push_back(before + i * microbatch);
    const std::int64_t read = std::min(windows, count * microbatch);
    sequences_ += read;
    tokens_ += data.targets(before + read) - data.targets(before);
    before += windows;
  }
  microbatches_ = std::ssize(begins);
  std::vector<std::int64_t> order;
  if (clients.empty() && deals_by_content(compiled.model, nullptr)) {
    with_images_ = evaluated_inputs(compiled.model, data, microbatch).with;
    order = by_content(data, sequences_);
  }
  source_.emplace(data, compiled.model, microbatch, std::move(begins), std::move(order));
}

std::int64_t Validation::passes(std::int64_t at_once) const {
  std::int64_t longest = (microbatches_ + replicas_ - 1) / replicas_;
  for (const Run& run : own_) longest = std::max(longest, run.count);
  return (longest + at_once - 1) / at_once;
}

Validation::Run Validation::part_of(std::int64_t pass, std::int64_t replica,
                                    std::int64_t at_once) const {
  const Run all = own_.empty() ? Run{0, microbatches_} : own_[static_cast<std::size_t>(replica)];
  const std::int64_t number =
      own_.empty() ? (pass * replicas_ + replica) * at_once : pass * at_once;
  return {all.first + number, std::clamp<std::int64_t>(all.count - number, 0, at_once)};
}

int Validation::pattern_of(std::int64_t pass, std::int64_t at_once) const {
  if (!with_images_) return engine::StepInput::kFullest;
  const std::int64_t of_pass = at_once * replicas_;
  return compiled_->evaluation_of(
      std::clamp<std::int64_t>(*with_images_ - pass * of_pass, 0, of_pass));
}

Evaluation Validation::run(engine::Executor& executor,
                           const std::function<void(std::int64_t sequences)>& progress) {
  const std::int64_t at_once = executor.evaluated_at_once();
  std::vector<engine::MicrobatchSums> sums(static_cast<std::size_t>(at_once * replicas_));
  std::vector<engine::MicrobatchSums> all(static_cast<std::size_t>(microbatches_));
  const Run own = own_.empty() ? Run{0, microbatches_} : own_[static_cast<std::size_t>(replica_)];
  for (std::int64_t pass = 0; pass < passes(at_once); ++pass) {
    source_->begin_at(part_of(pass, replica_, at_once).first - own.first, own);
    executor.evaluate(*source_, sums, pattern_of(pass, at_once));
    // What lies past the end was computed on the last microbatch once more, and does not count.
    std::int64_t valid = 0;
    for (std::int64_t replica = 0; replica < replicas_; ++replica) {
      const Run part = part_of(pass, replica, at_once);
      if (part.count == 0) continue;
      std::copy_n(sums.begin() + replica * at_once, part.count, all.begin() + part.first);
      valid += part.count;
    }
    if (progress)
      progress(std::min(sequences_, (pass * at_once * replicas_ + valid) * microbatch_));
  }
  // In the order of the microbatches, whoever computed them.
  engine::MicrobatchSums sum;
  for (const engine::MicrobatchSums& microbatch : all) {
    sum.loss += microbatch.loss;
    sum.hits += microbatch.hits;
  }
  const auto predicted = static_cast<double>(tokens_);
  Evaluation evaluation{.loss = sum.loss / predicted};
  if (counts_hits_) evaluation.accuracy = sum.hits / predicted;
  return evaluation;
}

}  // namespace cleave::train
