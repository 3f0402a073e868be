#include "cleave/plan/tune/prediction.h"

#include <array>

namespace cleave::plan {
namespace {

struct NamedPart {
  const char* name;
  double TimeParts::*part;
};
constexpr std::array<NamedPart, 7> kParts = {
    {{"arithmetic", &TimeParts::arithmetic},
     {"recompute", &TimeParts::recompute},
     {"tensor communication", &TimeParts::tensor_communication},
     {"pipeline communication", &TimeParts::pipeline_communication},
     {"data communication", &TimeParts::data_communication},
     {"bubble", &TimeParts::bubble},
     {"optimizer", &TimeParts::optimizer}}};

}  // namespace

Reason why_slower(const Prediction& best, const Prediction& other) {
  const auto more = [&](const NamedPart& named) {
    return other.parts.*named.part - best.parts.*named.part;
  };
  const NamedPart& worst = *std::ranges::max_element(kParts, {}, more);
  return {worst.name, more(worst) / best.step_seconds};
}

}  // namespace cleave::plan
