#include "cleave/plan/tune/prediction.h"

#include <array>

namespace cleave::plan {
namespace {

constexpr std::array<TimePart, 7> kTimeParts = {
    {{"arithmetic", &TimeParts::arithmetic},
     {"recompute", &TimeParts::recompute},
     {"tensor communication", &TimeParts::tensor_communication},
     {"pipeline communication", &TimeParts::pipeline_communication},
     {"data communication", &TimeParts::data_communication},
     {"bubble", &TimeParts::bubble},
     {"optimizer", &TimeParts::optimizer}}};

}  // namespace

std::span<const TimePart> time_parts() {
  return kTimeParts;
}

double TimeParts::all() const {
  double sum = 0;
  for (const TimePart& part : kTimeParts) sum += this->*part.seconds;
  return sum;
}

Reason why_slower(const Prediction& best, const Prediction& other) {
  const auto more = [&](const TimePart& part) {
    return other.parts.*part.seconds - best.parts.*part.seconds;
  };
  const TimePart& worst = *std::ranges::max_element(kTimeParts, {}, more);
  return {worst.name, more(worst) / best.step_seconds};
}

}  // namespace cleave::plan
