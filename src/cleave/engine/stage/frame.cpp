#include "cleave/engine/stage/stage.h"

// Where the tensors of a microbatch are, by the places that the plan gave them.
namespace cleave::engine {
namespace {

View view_of(const Frame& frame, const plan::Place& place, DType dtype, const Shape& shape) {
  if (place.region == plan::Region::None) return {};
  if (place.region == plan::Region::Port) {
    std::byte* at = frame.ports[static_cast<std::size_t>(place.offset)];
    return at == nullptr ? View() : View(at, dtype, shape);
  }
  // What is absent from a microbatch has a shape and no place.
  std::byte* begin = frame[static_cast<int>(place.region)];
  return View(begin == nullptr ? nullptr : begin + place.offset, dtype, shape);
}

}  // namespace

View view_at(const Frame& frame, const plan::Place& place, const TensorSpec& tensor) {
  return view_of(frame, place, tensor.dtype, tensor.shape);
}

View gradient_at(const Frame& frame, const plan::Place& place, const TensorSpec& tensor) {
  return view_of(frame, place, tensor.dtype, tensor.gradient_shape());
}

}  // namespace cleave::engine
