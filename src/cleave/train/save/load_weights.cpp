#include "cleave/train/save/load_weights.h"

#include <algorithm>
#include <map>

#include "cleave/base/check.h"
#include "cleave/base/tensor_sum.h"
#include "cleave/ops/elementwise.h"

namespace cleave::train {

void load_weights(const checkpoint::CheckpointReader& checkpoint, const MergedWeights& adapters,
                  const WeightTargets& targets) {
  std::map<std::string_view, std::uint64_t> sums;
  for (const checkpoint::Manifest::Entry& entry : checkpoint.manifest().files) {
    for (const checkpoint::Manifest::Tensor& tensor : entry.tensors) sums[tensor.name] = tensor.sum;
  }
  const View staging = targets.staging;
  for (const auto& weight : targets.weights) {
    const std::int64_t count = weight.value.elements();
    std::uint64_t sum = 0;
    for (std::int64_t first = 0; first < count; first += staging.elements()) {
      const std::int64_t here = std::min(staging.elements(), count - first);
      const View piece = staging.slice(0, 0, here);
      checkpoint.read_weight(weight.name, first,
                             {piece.as<float>(), static_cast<std::size_t>(here)});
      sum += tensor_sum({piece.bytes(), static_cast<std::size_t>(piece.byte_count())}, first);
      adapters.add_to(weight.name, first, {piece.as<float>(), static_cast<std::size_t>(here)});
      ops::copy(*targets.compute, piece, weight.value.reshaped({count}).slice(0, first, here));
    }
    require(checkpoint.foreign() || sum == sums[weight.name],
            (checkpoint.path() / checkpoint::kModelFile).string(), " has tensor \"", weight.name,
            "\" with a wrong checksum; use another checkpoint");
  }
}

}  // namespace cleave::train
