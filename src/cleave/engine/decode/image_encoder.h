#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cleave/engine/decode/decoder.h"

namespace cleave::engine {

/// The part of a model that turns images into rows: a chain of segments, up to the projector or
/// any other.
/// Its memory is one arena, planned before it exists.
class ImageEncoder {
 public:
  struct Options {
    DType dtype = DType::F32;
    std::int64_t images = 1;
    std::string last = "projector";  ///< the segment whose y is wanted
    int threads = 1;
    ops::Arithmetic arithmetic = ops::Arithmetic::Fastest;
    std::optional<std::int64_t> budget = {};  ///< bytes
  };

  /// Throws DoesNotFit, with the numbers, if the plan exceeds the budget.
  ImageEncoder(const ModelShape& shape, const Options& options);

  /// The caller fills these before encode().
  const std::vector<Decoder::Weight>& weights() const { return weights_; }
  View staging() const;
  ops::Compute& compute() { return compute_; }

  /// [images · patches, values of a patch], to be filled before each encode(), in the model's
  /// dtype.
  View patches() const { return view_at(frame_, layout_.layers.front().x, x_); }

  /// [images · rows of an image, hidden] in the model's dtype, valid until the next call.
  View encode();

  /// [weight] how it begins where nothing is loaded.
  const std::vector<Init>& inits() const { return inits_; }

  std::int64_t planned_bytes() const { return planned_; }

 private:
  void require_fits(const Options& options) const;
  void bind();

  ops::Compute compute_;
  TensorSpec x_;
  plan::StageLayout layout_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<std::int64_t> offsets_;  // of all layers' parameters
  DType dtype_;
  Frame frame_{};
  std::int64_t output_ = 0;
  std::int64_t work_ = 0;
  std::int64_t work_bytes_ = 0;
  std::int64_t planned_ = 0;
  std::unique_ptr<Arena> arena_;
  std::vector<Decoder::Weight> weights_;
  std::vector<Init> inits_;
};

}  // namespace cleave::engine
