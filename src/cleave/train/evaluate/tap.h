#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/layers/layer.h"

namespace cleave::train {

/// What went into a layer, call after call.
struct Tapped {
  std::vector<float> values;      ///< of x in f32 or bf16
  std::vector<std::int32_t> ids;  ///< of x in i32
  std::int64_t rows = 0;          ///< of all calls together
  std::int64_t calls = 0;

  std::int64_t width() const { return rows == 0 ? 0 : std::ssize(values) / rows; }
};

/// A layer that is called `layer`, and what is to be kept of it.
struct Tap {
  std::string layer;
  Tapped* into = nullptr;
};

/// Makes layers as `make` does; those that a tap names copy their x before F.
LayerFactory tapped(LayerFactory make, std::vector<Tap> taps);

}  // namespace cleave::train
