#include "cleave/checkpoint/checkpoint.h"

#include "cleave/base/check.h"

namespace cleave::checkpoint {
namespace {

TensorEntry f32(std::string name, const Shape& shape) {
  return {.name = std::move(name), .dtype = DType::F32, .shape = shape, .offset = 0};
}

}  // namespace

std::string tensor_name(Part part, std::string_view parameter) {
  constexpr std::array<std::string_view, 3> kEndings = {"", ".m", ".v"};
  return std::string(parameter).append(kEndings[static_cast<std::size_t>(part)]);
}

CheckpointLayout::CheckpointLayout(std::vector<Parameter> parameters)
    : parameters_(std::move(parameters)) {
  std::vector<TensorEntry> weights;
  std::vector<TensorEntry> moments;
  for (const Parameter& p : parameters_) {
    weights.push_back(f32(p.name, p.shape));
    moments.push_back(f32(tensor_name(Part::FirstMoment, p.name), p.shape));
    moments.push_back(f32(tensor_name(Part::SecondMoment, p.name), p.shape));
  }
  model_ = lay_out(std::move(weights));
  optimizer_ = lay_out(std::move(moments));
}

const TensorEntry& CheckpointLayout::entry(Part part, std::size_t parameter) const {
  CLEAVE_CHECK(parameter < parameters_.size(), parameter, " of ", parameters_.size());
  if (part == Part::Weight) return model_.tensors[parameter];
  return optimizer_.tensors[2 * parameter + (part == Part::SecondMoment ? 1 : 0)];
}

}  // namespace cleave::checkpoint
