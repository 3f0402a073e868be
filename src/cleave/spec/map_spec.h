#pragma once

#include <cstdint>

namespace cleave {

/// Images of `height` x `width` pixels with their channels side by side.
struct MapShape {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;

  std::int64_t pixels() const { return height * width; }
  std::int64_t values() const { return pixels() * channels; }

  friend bool operator==(const MapShape&, const MapShape&) = default;
};

/// What layers of kind "pad" and "upsample" need to know.
struct MapAttributes {
  MapShape map;         ///< x
  std::int64_t by = 1;  ///< pixels of margin on each side; how many times as wide and high

  friend bool operator==(const MapAttributes&, const MapAttributes&) = default;
};

/// What layers of kind "group_norm" need to know.
struct GroupAttributes {
  std::int64_t channels = 1;
  std::int64_t groups = 1;
  float epsilon = 1e-5f;

  friend bool operator==(const GroupAttributes&, const GroupAttributes&) = default;
};

}  // namespace cleave
