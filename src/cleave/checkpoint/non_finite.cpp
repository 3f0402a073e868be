#include "cleave/checkpoint/non_finite.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/check.h"

namespace cleave::checkpoint {
namespace {

constexpr std::int64_t kElementsAtOnce = std::int64_t{1} << 18;

bool is_finite(const CheckpointReader& checkpoint, const TensorEntry& tensor) {
  std::vector<float> elements;
  for (std::int64_t first = 0; first < tensor.shape.elements(); first += kElementsAtOnce) {
    elements.resize(std::min(kElementsAtOnce, tensor.shape.elements() - first));
    checkpoint.read_weight(tensor.name, first, elements);
    if (!std::ranges::all_of(elements, [](float x) { return std::isfinite(x); })) return false;
  }
  return true;
}

}  // namespace

std::string why_not_finite(const CheckpointReader& checkpoint) {
  const std::string path = checkpoint.path().string();
  for (const TensorEntry& tensor : checkpoint.model().tensors) {
    if (is_real(tensor.type) && !is_finite(checkpoint, tensor))
      return detail::concat("tensor \"", tensor.name, "\" of ", path,
                            " holds a number that is NaN or infinite; use another checkpoint");
  }
  return detail::concat("all weights of ", path,
                        " are, but what they are multiplied to is too large; use another "
                        "checkpoint, or train.dtype \"f32\" if it has another");
}

}  // namespace cleave::checkpoint
