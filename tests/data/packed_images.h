#pragma once

#include <string>
#include <vector>

#include "support/temporary_directory.h"

#include "cleave/data/image/pack.h"

namespace cleave::testing {

inline data::PackOptions small_options(const std::string& input, int channels = 3) {
  return {.shape = {.width = 12,
                    .height = 10,
                    .channels = channels,
                    .mean = std::vector<double>(static_cast<std::size_t>(channels), 0.5),
                    .deviation = std::vector<double>(static_cast<std::size_t>(channels), 0.5)},
          .filter = &data::find_resize_filter("bilinear"),
          .input = input};
}

inline data::PackReport pack(const std::string& input, const std::string& out,
                             data::PackOptions options, std::vector<std::string>* bad = nullptr) {
  return data::pack_samples(*data::open_source(input, {}), out, options,
                            {.on_done = [](std::int64_t) {},
                             .on_bad =
                                 [&](const std::string& s) {
                                   if (bad) bad->push_back(s);
                                 }});
}

/// `count` grey images with labels, as MNIST has them.
inline std::string write_idx(const TemporaryDirectory& dir, int count) {
  const char n[] = {static_cast<char>(count >> 8), static_cast<char>(count & 255)};
  std::string images("\0\0\x8\x3\0\0", 6);
  images += std::string(n, 2) + std::string("\0\0\0\x4\0\0\0\x4", 8);
  std::string labels("\0\0\x8\x1\0\0", 6);
  labels += std::string(n, 2);
  for (int i = 0; i < count; ++i) {
    for (int p = 0; p < 16; ++p) images += static_cast<char>(i * 7 + p * 3);
    labels += static_cast<char>(i % 10);
  }
  dir.write("t-labels-idx1-ubyte", labels);
  return dir.write("t-images-idx3-ubyte", images);
}

}  // namespace cleave::testing
