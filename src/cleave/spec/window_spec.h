#pragma once

#include <cstdint>

namespace cleave {

/// A square that slides over images of `height` x `width` x `channels`, without a margin.
struct WindowShape {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
  std::int64_t size = 1;    ///< of a side of the square
  std::int64_t stride = 1;  ///< from one place to the next

  std::int64_t out_height() const { return (height - size) / stride + 1; }
  std::int64_t out_width() const { return (width - size) / stride + 1; }
  std::int64_t places() const { return out_height() * out_width(); }
  std::int64_t values() const { return height * width * channels; }

  friend bool operator==(const WindowShape&, const WindowShape&) = default;
};

/// What layers of kind "convolution" and "max_pool" need to know.
struct WindowAttributes {
  WindowShape window;

  friend bool operator==(const WindowAttributes&, const WindowAttributes&) = default;
};

/// What a layer of kind "channels_first" needs to know.
struct ChannelAttributes {
  std::int64_t channels = 1;

  friend bool operator==(const ChannelAttributes&, const ChannelAttributes&) = default;
};

}  // namespace cleave
