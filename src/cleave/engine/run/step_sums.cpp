#include "cleave/engine/run/step_sums.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/check.h"

namespace cleave::engine {

StepSums::StepSums(const Parts& parts) : parts_(parts), norm_(parts.pieces, parts.stages) {
  const schedule::Topology topology(*parts.program);
  replica_ = topology.replica[parts.device];
  shared_.resize(static_cast<std::size_t>(NormNumbers::count(*parts.program, norm_.pieces())));
  const std::size_t first =
      static_cast<std::size_t>(NormNumbers::kFirstLoss + replica_ * parts.program->microbatches);
  losses_ = std::span(shared_).subspan(
      first, static_cast<std::size_t>(topology.microbatches(parts.device)));
  squares_ = std::span(shared_).last(static_cast<std::size_t>(norm_.pieces()));
}

void StepSums::begin_step() {
  std::ranges::fill(shared_, 0.0);
}

void StepSums::square_gradients(ops::Compute& compute) {
  const auto shares = [](const Stage* stage) {
    return stage != nullptr && stage->parameters().layout().shares_state();
  };
  const bool any = std::ranges::any_of(parts_.stages, shares);
  if (replica_ == 0 || any) norm_.square(compute);
  for (int s = 0; s < parts_.program->stages && any; ++s)
    if (parts_.stages[s] != nullptr)
      parts_.replicas[s]->combine(norm_.blocks(s), comm::Combine::Sum);
  if (replica_ == 0) norm_.add_up(squares_);
}

StepResult StepSums::combine(float loss_scale, bool stop) {
  shared_[NormNumbers::kStop] = stop ? 1 : 0;
  parts_.world->combine(shared_, comm::Combine::Sum);

  const StepResult result{.loss = total_loss() * static_cast<double>(loss_scale),
                          .gradient_norm = GradientNorm::norm(squares_),
                          .stop = shared_[NormNumbers::kStop] > 0};
  if (!std::isfinite(result.loss)) throw NonFinite("the loss is not finite");
  if (!std::isfinite(result.gradient_norm)) throw NonFinite("the gradient norm is not finite");
  return result;
}

/// Shards in the order of their microbatches, then by the tree that also adds up their gradients.
double StepSums::total_loss() {
  const int per_shard = parts_.fold.per_shard();
  const int shards = parts_.program->replicas * parts_.fold.shards;
  double* losses = &shared_[NormNumbers::kFirstLoss];
  for (int s = 0; s < shards; ++s) {
    double sum = 0;
    for (int m = 0; m < per_shard; ++m) sum += losses[s * per_shard + m];
    losses[s] = sum;
  }
  for (int width = 1; width < shards; width *= 2) {
    for (int s = 0; s + width < shards; s += 2 * width) losses[s] += losses[s + width];
  }
  return losses[0];
}

}  // namespace cleave::engine
