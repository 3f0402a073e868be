#include "cleave/checkpoint/checkpoint.h"

#include "cleave/base/check.h"

namespace cleave::checkpoint {
namespace {

TensorEntry f32(std::string name, const Shape& shape) {
  return {.name = std::move(name), .type = StoredType::F32, .shape = shape, .offset = 0};
}

std::int64_t row_count(const Shape& shape) {
  for (int dim = 0; dim < shape.rank(); ++dim)
    if (shape[dim] != 1) return shape[dim];
  return 1;
}

}  // namespace

bool same_rows(const Shape& a, const Shape& b) {
  return a.elements() == b.elements() && row_count(a) == row_count(b);
}

std::string tensor_name(std::string_view parameter, std::string_view slot) {
  return slot.empty() ? std::string(parameter) : detail::concat(parameter, ".", slot);
}

CheckpointLayout::CheckpointLayout(std::vector<Parameter> parameters)
    : parameters_(std::move(parameters)) {
  std::vector<TensorEntry> weights;
  std::vector<TensorEntry> slots;
  for (const Parameter& p : parameters_) {
    weights.push_back(f32(p.name, p.shape));
    first_slot_.push_back(slots.size());
    for (const std::string& slot : p.slots)
      slots.push_back(f32(tensor_name(p.name, slot), p.shape));
  }
  model_ = lay_out(std::move(weights));
  optimizer_ = lay_out(std::move(slots));
}

const TensorEntry& CheckpointLayout::entry(std::size_t tensor) const {
  CLEAVE_CHECK(tensor < tensors(), tensor, " of ", tensors());
  const std::size_t weights = model_.tensors.size();
  return tensor < weights ? model_.tensors[tensor] : optimizer_.tensors[tensor - weights];
}

std::size_t CheckpointLayout::index(Part part, std::size_t parameter) const {
  CLEAVE_CHECK(parameter < parameters_.size(), parameter, " of ", parameters_.size());
  if (part == Part::Weight) return parameter;
  const auto slot = static_cast<std::size_t>(part);
  const Parameter& owner = parameters_[parameter];
  CLEAVE_CHECK(slot < owner.slots.size(), owner.name, ": ", slot, " of ", owner.slots.size());
  return model_.tensors.size() + first_slot_[parameter] + slot;
}

}  // namespace cleave::checkpoint
