#include "cleave/checkpoint/weight_writer.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/checkpoint/weight_files.h"

namespace cleave::checkpoint {
namespace {

constexpr std::int64_t kPieceElements = std::int64_t{1} << 20;

struct WeightShard {
  std::vector<TensorEntry> tensors;
  std::int64_t bytes = 0;
};

/// Tensors in their order, as many in each shard as fit.
std::vector<WeightShard> shards_of(const std::vector<Parameter>& parameters,
                                   const WeightFormat& format) {
  std::vector<WeightShard> shards(1);
  for (const Parameter& parameter : parameters) {
    const TensorEntry tensor{.name = parameter.name, .type = format.type, .shape = parameter.shape};
    if (shards.back().bytes > 0 && shards.back().bytes + tensor.bytes() > format.shard_bytes)
      shards.emplace_back();
    shards.back().bytes += tensor.bytes();
    shards.back().tensors.push_back(tensor);
  }
  return shards;
}

/// The upper half of an f32, rounded to nearest even; NaN keeps its sign and becomes a quiet one.
std::uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void write_elements(File& file, const TensorEntry& tensor, std::int64_t first,
                    std::span<const float> elements) {
  const std::int64_t offset = tensor.offset + first * size_of(tensor.type);
  if (tensor.type == StoredType::F32) return file.write(std::as_bytes(elements), offset);
  std::vector<std::uint16_t> rounded(elements.size());
  std::ranges::transform(elements, rounded.begin(), round_to_bf16);
  file.write(std::as_bytes(std::span(rounded)), offset);
}

void write_tensor(File& file, const TensorEntry& tensor, const ReadWeight& read) {
  const Parameter parameter{tensor.name, tensor.shape};
  const std::int64_t count = tensor.shape.elements();
  std::vector<float> piece(static_cast<std::size_t>(std::min(count, kPieceElements)));
  for (std::int64_t first = 0; first < count; first += kPieceElements) {
    const auto here = std::span(piece).first(std::min(kPieceElements, count - first));
    read(parameter, first, here);
    write_elements(file, tensor, first, here);
  }
}

}  // namespace

std::int64_t write_weights(const std::filesystem::path& directory,
                           const std::vector<Parameter>& parameters, const WeightFormat& format,
                           const ReadWeight& read) {
  CLEAVE_CHECK(format.type == StoredType::F32 || format.type == StoredType::BF16, "type");
  std::vector<WeightShard> shards = shards_of(parameters, format);
  nlohmann::ordered_json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", {}}};
  std::int64_t total = 0;
  std::int64_t weights = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        shards.size() == 1 ? std::string(kModelFile)
                           : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    const SafetensorsHeader header = lay_out(std::move(shards[i].tensors));
    File file = File::create(directory / name);
    file.reserve(header.file_bytes);
    file.write(std::as_bytes(std::span(header.text)), 0);
    for (const TensorEntry& tensor : header.tensors) {
      write_tensor(file, tensor, read);
      index["weight_map"][tensor.name] = name;
    }
    file.sync();
    total += header.file_bytes;
    weights += shards[i].bytes;
  }
  index["metadata"]["total_size"] = weights;
  if (shards.size() > 1) write_text_atomically(directory / kIndexFile, index.dump(2) + "\n");
  return total;
}

}  // namespace cleave::checkpoint
