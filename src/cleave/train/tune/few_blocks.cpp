#include "cleave/train/tune/few_blocks.h"

#include <algorithm>

#include "cleave/spec/trainable.h"

namespace cleave::train {
namespace {

/// Whether the same layers stand in both, so that measuring one is measuring the other.
bool are_alike(const SegmentSpec& a, const SegmentSpec& b) {
  return parameter_count(a) == parameter_count(b) &&
         std::ranges::equal(a.layers, b.layers, {}, &LayerSpec::kind, &LayerSpec::kind);
}

/// Blocks of each module that are measured where all are alike: something may go with the first and
/// with the last of a module that has neighbours.
constexpr std::int64_t kMeasuredOfModule = 2;

/// How many of a module's blocks are measured, if all of them are alike.
std::int64_t measured(std::int64_t blocks) {
  return std::min(blocks, kMeasuredOfModule);
}

}  // namespace

bool has_alike_blocks(const Graph& model) {
  const std::vector<bool> wants = wants_gradients(model);
  std::size_t first = model.segments.size();
  for (std::size_t s = 0; s < model.segments.size(); ++s) {
    const SegmentSpec& block = model.segments[s];
    if (!block.block) continue;
    if (first == model.segments.size() || block.module != model.segments[first].module) first = s;
    if (!are_alike(block, model.segments[first]) || wants[s] != wants[first] ||
        trained_count({&block, 1}) != trained_count({&model.segments[first], 1}))
      return false;
  }
  return true;
}

ModelShape with_few_blocks(ModelShape model) {
  if (model.vision.layers == 0) {
    model.layers = 1;
    return model;
  }
  // Each of the first language layers has features of the tower added after it.
  const std::int64_t features = model.vision.deepstack.count;
  const std::int64_t tower = model.blocks() - model.layers;  // without what is not computed of it
  const std::int64_t few = std::min(tower, features + measured(tower));
  model.vision.layers += few - tower;
  model.layers = std::min(model.layers, features + measured(model.layers));
  model.vision.deepstack = {};
  for (std::int64_t k = 0; k < features; ++k) model.vision.deepstack.push_back(k);
  return model;
}

std::vector<plan::StageCosts> costs_of_all_blocks(const std::vector<plan::StageCosts>& parts,
                                                  const ModelShape& few, const ModelShape& all) {
  if (few.blocks() == all.blocks()) return parts;
  std::vector<plan::StageCosts> result = {parts.front()};
  const std::int64_t tower = few.blocks() - few.layers;
  if (tower > 0) {
    // What goes with the last block of the tower is the tower's end; what goes with the first of
    // the language model is the projector and the joint.
    result.insert(result.end(), all.blocks() - all.layers - 1, parts[1]);
    result.push_back(parts[tower]);
    result.push_back(parts[tower + 1]);
  }
  // Those that features are added after are measured one by one.
  const std::int64_t first = tower > 0 ? 1 : 0;
  const std::int64_t known = std::max(first, few.vision.deepstack.count);
  for (std::int64_t k = first; k < known; ++k) result.push_back(parts[tower + 1 + k]);
  result.insert(result.end(), all.layers - known, parts[few.blocks()]);
  result.push_back(parts.back());
  return result;
}

}  // namespace cleave::train
