#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace cleave::data {

/// The number of samples that nothing is learned from: they stay as they are.
inline constexpr std::int64_t kAsItIs = -1;

/// Which of the images of a run is read: what its change is drawn by.
struct ImageDraw {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t sample = 0;
  std::int64_t image = 0;
};

/// Where a row of a sample goes: into one of the two, by what the input holds.
struct SampleRow {
  std::span<std::int32_t> ids = {};
  std::span<float> values = {};
  std::span<std::uint8_t> room = {};  ///< to work in: twice Samples::room()
  std::int64_t epoch = kAsItIs;       ///< of what is learned from: images change with it
  std::int64_t images = 0;  ///< of the samples before this one, which its own are counted after
};

/// Samples by number, each with a row for every input of a model: windows of text, or images.
class Samples {
 public:
  virtual ~Samples() = default;

  virtual std::int64_t size() const = 0;
  virtual const std::filesystem::path& path() const = 0;

  /// Changes with any byte that can be read.
  virtual std::uint64_t digest() const = 0;

  /// How many tokens or labels the samples [first, end) have to predict. Does not allocate.
  virtual std::int64_t targets(std::int64_t first, std::int64_t end) const = 0;

  /// How many images a sample has.
  virtual std::int64_t images(std::int64_t) const { return 0; }

  /// Bytes that reading needs to work in: of an image, which has as many values.
  virtual std::int64_t room() const { return 0; }

  /// How many values an image has in the input `input`.
  virtual std::int64_t image_values(std::string_view /*input*/) const { return room(); }

  /// Fills `row` with what the input `input` is in a sample; where that is images, with as many as
  /// the sample has. Allocates nothing; several threads may read at once.
  virtual void read(std::int64_t sample, std::string_view input, const SampleRow& row) const = 0;
};

}  // namespace cleave::data
