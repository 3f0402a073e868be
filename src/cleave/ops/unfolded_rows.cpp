#include "cleave/ops/unfolded_rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cleave/tensor/bf16.h"

namespace cleave::ops {
namespace {

// A row of `columns` is made of runs: `size` neighbours of one channel in one row of pixels. Pixels
// of one channel lie apart in an image, so it is first taken apart by channel, into a tile on the
// stack: all of it, or the rows of pixels under one row of squares, some channels at a time. Then a
// run is one copy, or one sum of a few values. Rows of `columns` are written once from left to
// right where they can: there are more of them than a cache holds.
constexpr std::int64_t kTile = 8192;  // values

float number_of(float value) {
  return value;
}
float number_of(BFloat16 value) {
  return to_float(value);
}
void round_to(float value, float& out) {
  out = value;
}
void round_to(float value, BFloat16& out) {
  out = to_bf16(value);
}

/// Calls fn(size) with the size of a run: as a constant where it is a usual one, so that copies and
/// sums have a known length.
template <class Fn>
void with_run(std::int64_t size, const Fn& fn) {
  switch (size) {
    case 1:
      return fn(std::integral_constant<std::int64_t, 1>());
    case 2:
      return fn(std::integral_constant<std::int64_t, 2>());
    case 3:
      return fn(std::integral_constant<std::int64_t, 3>());
    case 5:
      return fn(std::integral_constant<std::int64_t, 5>());
    case 7:
      return fn(std::integral_constant<std::int64_t, 7>());
    default:
      return fn(size);
  }
}

/// Channels [first, first + count) of an image.
struct Channels {
  std::int64_t first;
  std::int64_t count;
};

/// Calls fn(channels) for groups of channels of which `values` each fit a tile.
template <class Fn>
void for_channels(const WindowShape& s, std::int64_t values, const Fn& fn) {
  const std::int64_t most = std::max<std::int64_t>(1, kTile / values);
  for (std::int64_t c = 0; c < s.channels; c += most)
    fn(Channels{c, std::min(most, s.channels - c)});
}

/// planes [channels, pixels]: `pixels` neighbours, channel by channel.
template <class T>
void take_apart(const WindowShape& s, Channels channels, const T* x, std::int64_t pixels,
                T* planes) {
  const T* pixel = x + channels.first;
  for (std::int64_t c = 0; c < channels.count; ++c)
    for (std::int64_t z = 0; z < pixels; ++z) planes[c * pixels + z] = pixel[z * s.channels + c];
}

/// The runs of one row of squares: the rows of pixels under them begin at `rows`, and those of the
/// next channel `plane` further; `columns` is the row of the first place.
template <class T>
void copy_runs(const WindowShape& s, Channels channels, const T* rows, std::int64_t plane,
               T* columns) {
  // Numbers of their own: memory that is written might be the shape's, as far as a compiler knows.
  const std::int64_t places = s.out_width();
  const std::int64_t row = s.channels * s.size * s.size;
  with_run(s.size, [=, width = s.width, stride = s.stride](auto size) {
    const T* from = rows;
    T* place = columns + channels.first * size * size;
    for (std::int64_t ox = 0; ox < places; ++ox, from += stride, place += row) {
      T* to = place;
      for (std::int64_t c = 0; c < channels.count; ++c) {
        const T* run = from + c * plane;
        for (std::int64_t ky = 0; ky < size; ++ky, run += width, to += size)
          std::memcpy(to, run, static_cast<std::size_t>(size) * sizeof(T));
      }
    }
  });
}

/// One value at a time, where not even one channel's rows of pixels fit a tile.
template <class T>
void copy_values(const WindowShape& s, const T* x, T* columns) {
  for (std::int64_t ox = 0; ox < s.out_width(); ++ox)
    for (std::int64_t c = 0; c < s.channels; ++c)
      for (std::int64_t ky = 0; ky < s.size; ++ky)
        for (std::int64_t kx = 0; kx < s.size; ++kx)
          *columns++ = x[(ky * s.width + ox * s.stride + kx) * s.channels + c];
}

template <class T>
void unfold_values(const WindowShape& s, const T* x, T* columns) {
  const std::int64_t pixels = s.height * s.width;
  const std::int64_t under = s.size * s.width;                            // one row of squares
  const std::int64_t row = s.out_width() * s.channels * s.size * s.size;  // of places, in values
  const auto for_rows = [&](const auto& unfold_row) {
    for (std::int64_t oy = 0; oy < s.out_height(); ++oy)
      unfold_row(oy * s.stride * s.width, columns + oy * row);
  };
  if (s.channels == 1) {
    for_rows([&](std::int64_t pixel, T* to) { copy_runs(s, {0, 1}, x + pixel, pixels, to); });
  } else if (s.values() <= kTile) {
    const Channels all{0, s.channels};
    T planes[kTile];
    take_apart(s, all, x, pixels, planes);
    for_rows([&](std::int64_t pixel, T* to) { copy_runs(s, all, planes + pixel, pixels, to); });
  } else if (under <= kTile) {
    for_rows([&](std::int64_t pixel, T* to) {
      for_channels(s, under, [&](Channels channels) {
        T planes[kTile];
        take_apart(s, channels, x + pixel * s.channels, under, planes);
        copy_runs(s, channels, planes, under, to);
      });
    });
  } else {
    for_rows([&](std::int64_t pixel, T* to) { copy_values(s, x + pixel * s.channels, to); });
  }
}

/// Adds `places` runs, `row` values apart, each to the pixels one further to the right. The sums
/// that the next run adds to stay in registers.
template <std::int64_t kSize, class T>
void add_neighbours(const T* run, std::int64_t row, std::int64_t places, float* sums) {
  float open[kSize];
  for (std::int64_t kx = 0; kx < kSize - 1; ++kx) open[kx] = sums[kx];
  for (std::int64_t ox = 0; ox < places; ++ox, run += row, ++sums) {
    open[kSize - 1] = sums[kSize - 1];
#pragma GCC unroll 8
    for (std::int64_t kx = 0; kx < kSize; ++kx) open[kx] += number_of(run[kx]);
    sums[0] = open[0];
#pragma GCC unroll 8
    for (std::int64_t kx = 0; kx < kSize - 1; ++kx) open[kx] = open[kx + 1];
  }
  for (std::int64_t kx = 0; kx < kSize - 1; ++kx) sums[kx] = open[kx];
}

/// Adds the runs of one row of squares to the row of pixels under their row ky: sums [channels,
/// width]. Squares come in order, and so do the values of a pixel.
template <class T>
void add_runs(const WindowShape& s, Channels channels, std::int64_t ky, const T* columns,
              float* sums) {
  const std::int64_t places = s.out_width();
  const std::int64_t row = s.channels * s.size * s.size;
  with_run(s.size, [=, width = s.width, stride = s.stride](auto size) {
    for (std::int64_t c = 0; c < channels.count; ++c) {
      const T* run = columns + ((channels.first + c) * size + ky) * size;
      float* sum = sums + c * width;
      if constexpr (!std::is_same_v<decltype(size), std::int64_t>) {
        if (stride == 1) {
          add_neighbours<size>(run, row, places, sum);
          continue;
        }
      }
      for (std::int64_t ox = 0; ox < places; ++ox, run += row, sum += stride)
        for (std::int64_t kx = 0; kx < size; ++kx) sum[kx] += number_of(run[kx]);
    }
  });
}

/// The row of pixels y, of some channels.
template <class T>
void fold_row(const WindowShape& s, Channels channels, std::int64_t y, const T* columns, T* x) {
  float sums[kTile];
  std::fill_n(sums, channels.count * s.width, 0.0F);
  const std::int64_t first = std::max<std::int64_t>(0, (y - s.size + s.stride) / s.stride);
  const std::int64_t last = std::min(y / s.stride, s.out_height() - 1);
  for (std::int64_t oy = first; oy <= last; ++oy)
    add_runs(s, channels, y - oy * s.stride,
             columns + oy * s.out_width() * s.channels * s.size * s.size, sums);
  T* pixel = x + y * s.width * s.channels + channels.first;
  for (std::int64_t z = 0; z < s.width; ++z, pixel += s.channels)
    for (std::int64_t c = 0; c < channels.count; ++c) round_to(sums[c * s.width + z], pixel[c]);
}

/// One pixel at a time, where a row of them does not fit a tile.
template <class T>
void fold_pixels(const WindowShape& s, std::int64_t y, const T* columns, T* x) {
  const std::int64_t row = s.channels * s.size * s.size;
  const auto first = [&](std::int64_t at) {
    return std::max<std::int64_t>(0, (at - s.size + s.stride) / s.stride);
  };
  for (std::int64_t z = 0; z < s.width; ++z)
    for (std::int64_t c = 0; c < s.channels; ++c) {
      float sum = 0;
      for (std::int64_t oy = first(y); oy <= std::min(y / s.stride, s.out_height() - 1); ++oy)
        for (std::int64_t ox = first(z); ox <= std::min(z / s.stride, s.out_width() - 1); ++ox)
          sum += number_of(columns[(oy * s.out_width() + ox) * row +
                                   (c * s.size + y - oy * s.stride) * s.size + z - ox * s.stride]);
      round_to(sum, x[(y * s.width + z) * s.channels + c]);
    }
}

template <class T>
void fold_values(const WindowShape& s, const T* columns, T* x) {
  for (std::int64_t y = 0; y < s.height; ++y) {
    if (s.width > kTile) {
      fold_pixels(s, y, columns, x);
    } else {
      for_channels(s, s.width, [&](Channels channels) { fold_row(s, channels, y, columns, x); });
    }
  }
}

}  // namespace

void unfold_image(DType dtype, const WindowShape& shape, const std::byte* x, std::byte* columns) {
  // What moves as it is needs no more than the size of its elements.
  if (dtype == DType::F32) {
    unfold_values(shape, reinterpret_cast<const float*>(x), reinterpret_cast<float*>(columns));
  } else {
    unfold_values(shape, reinterpret_cast<const BFloat16*>(x),
                  reinterpret_cast<BFloat16*>(columns));
  }
}

void fold_image(DType dtype, const WindowShape& shape, const std::byte* columns, std::byte* x) {
  if (dtype == DType::F32) {
    fold_values(shape, reinterpret_cast<const float*>(columns), reinterpret_cast<float*>(x));
  } else {
    fold_values(shape, reinterpret_cast<const BFloat16*>(columns), reinterpret_cast<BFloat16*>(x));
  }
}

}  // namespace cleave::ops
