#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/base/file.h"
#include "cleave/spec/shape.h"

namespace cleave::checkpoint {

/// Formats of elements in files. F16 is read alone: nothing computes with it. What older tools
/// saved beside weights, positions and masks, has the last three, and is never read.
enum class StoredType : std::uint8_t { F32, BF16, F16, I32, I64, U8 };

constexpr std::int64_t size_of(StoredType type) {
  constexpr std::int64_t kSizes[] = {4, 2, 2, 4, 8, 1};
  return kSizes[static_cast<std::size_t>(type)];
}

/// Whether its elements are weights.
constexpr bool is_real(StoredType type) {
  return type == StoredType::F32 || type == StoredType::BF16 || type == StoredType::F16;
}

/// One tensor of a safetensors file.
struct TensorEntry {
  std::string name;
  StoredType type = StoredType::F32;
  Shape shape;
  std::int64_t offset = 0;  ///< of its first byte, from the start of the file

  std::int64_t bytes() const { return shape.elements() * size_of(type); }
};

/// The format of Hugging Face's safetensors: eight bytes with the length of the header (little
/// endian), the header in JSON, the tensors one after another without holes. Ours is padded with
/// blanks so that tensors start on a border of 64 bytes.
struct SafetensorsHeader {
  std::string text;                  ///< the first bytes of the file, the length included
  std::vector<TensorEntry> tensors;  ///< in the order of the file
  std::int64_t file_bytes = 0;
};

/// Places tensors in the order given; offsets in `tensors` are ignored. The result depends on
/// nothing else, so all who write one file agree on it without talking.
SafetensorsHeader lay_out(std::vector<TensorEntry> tensors);

/// Reads and distrusts: throws UserError, naming file and tensor, on headers that are cut off, too
/// large or no JSON, on duplicate keys, unknown types, sizes that overflow or do not match the
/// offsets, and on tensors that overlap, leave holes or reach past the end.
SafetensorsHeader read_header(const File& file);

/// A file to read slices from.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const SafetensorsHeader& header() const { return header_; }

  /// Null if there is none.
  const TensorEntry* find(std::string_view name) const;

  /// Elements from `first` on, as they are; or from bf16 or f16 to f32. Throws UserError on other
  /// types.
  void read(const TensorEntry& tensor, std::int64_t first, std::span<float> elements) const;

  /// Bytes of the file from `offset` on.
  void read_bytes(std::int64_t offset, std::span<std::byte> bytes) const;

 private:
  File file_;
  SafetensorsHeader header_;
  std::vector<std::size_t> by_name_;
};

}  // namespace cleave::checkpoint
