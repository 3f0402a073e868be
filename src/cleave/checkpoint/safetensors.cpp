#include "cleave/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <set>

#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/shallow_json.h"
#include "cleave/base/units.h"
#include "cleave/checkpoint/half.h"

namespace cleave::checkpoint {
namespace {

using nlohmann::json;

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kLargestHeader = 100'000'000;  // the same limit as Hugging Face's

struct TypeName {
  StoredType type;
  std::string_view name;
};
constexpr TypeName kTypes[] = {{StoredType::F32, "F32"}, {StoredType::BF16, "BF16"},
                               {StoredType::F16, "F16"}, {StoredType::I32, "I32"},
                               {StoredType::I64, "I64"}, {StoredType::U8, "U8"},
                               {StoredType::U8, "BOOL"}};

std::string_view type_name(StoredType type) {
  return std::ranges::find(kTypes, type, &TypeName::type)->name;
}

std::string length_prefix(std::size_t length) {
  std::string bytes(kLengthBytes, '\0');
  for (int i = 0; i < kLengthBytes; ++i) bytes[i] = static_cast<char>(length >> (8 * i) & 0xff);
  return bytes;
}

/// Where we are, for messages.
struct Context {
  const std::filesystem::path& path;

  /// Values of JSON are parts as they are: to write them takes longer than to read the tensor.
  template <class... Parts>
  void need(bool ok, const Parts&... parts) const {
    if (!ok) require(ok, path.string(), " is not a sound safetensors file: ", parts...);
  }
};

/// nlohmann keeps the last of two equal keys without a word; two readers could then see two
/// different tensors in one file.
json parse_without_duplicates(const std::string& text, const Context& context) {
  std::vector<std::set<std::string>> open;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      context.need(open.back().insert(key).second, "the key \"", key, "\" appears twice");
    }
    return true;
  };
  try {
    return parse_shallow<json>(text, watch);
  } catch (const std::invalid_argument&) {
    context.need(false, "its header nests deeper than ", kDeepestJson, " levels");
    return {};
  } catch (const json::exception&) {
    context.need(false, "its header is not JSON");
    return {};
  }
}

std::int64_t whole_number(const json& value, const Context& context, const std::string& name) {
  context.need(value.is_number_integer(), "tensor \"", name, "\" has ", value,
               " where a whole number must stand");
  const bool fits = !value.is_number_unsigned() || value.get<std::uint64_t>() < (1ull << 63);
  context.need(fits && value.get<std::int64_t>() >= 0, "tensor \"", name, "\" has the number ",
               value, ", which is out of range");
  return value.get<std::int64_t>();
}

Shape parse_shape(const json& value, const Context& context, const std::string& name) {
  context.need(value.is_array(), "tensor \"", name, "\" has no list as its shape");
  context.need(value.size() <= Shape::kMaxRank, "tensor \"", name, "\" has ", value.size(),
               " dims, cleave reads at most ", Shape::kMaxRank);
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  std::int64_t bytes = 8;  // the widest element
  bool fits = true;
  for (std::size_t dim = 0; dim < value.size(); ++dim) {
    sizes[dim] = whole_number(value[dim], context, name);
    fits = fits && !__builtin_mul_overflow(bytes, sizes[dim], &bytes);
  }
  context.need(fits, "the shape ", value, " of tensor \"", name, "\" overflows");
  switch (value.size()) {
    case 0:
      return {};
    case 1:
      return {sizes[0]};
    case 2:
      return {sizes[0], sizes[1]};
    case 3:
      return {sizes[0], sizes[1], sizes[2]};
    default:
      return {sizes[0], sizes[1], sizes[2], sizes[3]};
  }
}

StoredType parse_type(const json& value, const Context& context, const std::string& name) {
  for (const TypeName& known : kTypes) {
    if (value.is_string() && value.get<std::string>() == known.name) return known.type;
  }
  context.need(false, "tensor \"", name, "\" has the type ", value,
               ", cleave reads F32, BF16, F16 and I32");
  return {};
}

TensorEntry parse_tensor(const std::string& name, const json& value, const Context& context) {
  const bool keys = value.is_object() && value.size() == 3 && value.contains("dtype") &&
                    value.contains("shape") && value.contains("data_offsets");
  context.need(keys, "tensor \"", name, "\" must have dtype, shape and data_offsets");
  TensorEntry tensor{.name = name,
                     .type = parse_type(value["dtype"], context, name),
                     .shape = parse_shape(value["shape"], context, name)};
  const json& offsets = value["data_offsets"];
  context.need(offsets.is_array() && offsets.size() == 2, "tensor \"", name,
               "\" must have two data_offsets");
  const std::int64_t begin = whole_number(offsets[0], context, name);
  const std::int64_t end = whole_number(offsets[1], context, name);
  context.need(begin <= end && end - begin == tensor.bytes(), "tensor \"", name, "\" of shape ",
               to_string(tensor.shape), " needs ", tensor.bytes(), " bytes, but its offsets are [",
               begin, ", ", end, "]");
  tensor.offset = begin;
  return tensor;
}

void check_placement(const std::vector<TensorEntry>& tensors, std::int64_t data_bytes,
                     const Context& context) {
  std::int64_t expected = 0;
  for (const TensorEntry& tensor : tensors) {
    context.need(tensor.offset <= data_bytes && tensor.bytes() <= data_bytes - tensor.offset,
                 "tensor \"", tensor.name, "\" reaches past the end of the file, to byte ",
                 tensor.offset, " + ", tensor.bytes(), " of ", data_bytes);
    context.need(tensor.offset >= expected, "tensor \"", tensor.name,
                 "\" overlaps the one before it");
    context.need(tensor.offset <= expected, "there is a hole of ", tensor.offset - expected,
                 " bytes before tensor \"", tensor.name, "\"");
    expected += tensor.bytes();
  }
  context.need(expected == data_bytes, data_bytes - expected,
               " bytes after the last tensor belong to none");
}

/// A pipe would have to be waited for, and slices are read in any order.
File open_regular(const std::filesystem::path& path) {
  using std::filesystem::file_type;
  std::error_code unknown;
  const file_type type = std::filesystem::status(path, unknown).type();
  require(type != file_type::fifo && type != file_type::character && type != file_type::socket,
          "cannot read ", path.string(), ": it is no regular file");
  return File::open(path);
}

// What a file begins with that a clone without Git LFS has in place of weights.
constexpr std::string_view kPointer = "version ";

std::string header_text(const File& file, const Context& context) {
  const std::int64_t size = file.size();
  context.need(size >= kLengthBytes, "it has only ", size, " bytes");
  std::array<std::byte, kLengthBytes> prefix{};
  file.read(prefix, 0);
  context.need(!std::ranges::equal(prefix, std::as_bytes(std::span(kPointer))),
               "it is a pointer that Git LFS left in its place; fetch the file with git lfs pull");
  std::uint64_t length = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) {
    length = length << 8 | std::to_integer<std::uint64_t>(prefix[i]);
  }
  context.need(length <= kLargestHeader, "its header claims ", length,
               " bytes, more than the limit of ", kLargestHeader);
  context.need(static_cast<std::int64_t>(length) <= size - kLengthBytes, "its header claims ",
               length, " bytes, but the file has ", size);
  std::string text(kLengthBytes + length, '\0');
  file.read(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

void check_metadata(const json& metadata, const Context& context) {
  const bool strings = metadata.is_object() &&
                       std::ranges::all_of(metadata, [](const json& v) { return v.is_string(); });
  context.need(strings, "its __metadata__ must hold strings only");
}

}  // namespace

SafetensorsHeader lay_out(std::vector<TensorEntry> tensors) {
  SafetensorsHeader header;
  nlohmann::ordered_json root;
  root["__metadata__"] = {{"format", "pt"}};
  std::int64_t end = 0;
  for (TensorEntry& tensor : tensors) {
    CLEAVE_CHECK(!root.contains(tensor.name), tensor.name, " twice");
    tensor.offset = end;
    end += tensor.bytes();
    std::vector<std::int64_t> sizes;
    for (int dim = 0; dim < tensor.shape.rank(); ++dim) sizes.push_back(tensor.shape[dim]);
    root[tensor.name] = {{"dtype", type_name(tensor.type)},
                         {"shape", sizes},
                         {"data_offsets", {tensor.offset, end}}};
  }
  std::string text = root.dump();
  text.resize(aligned(std::ssize(text) + kLengthBytes) - kLengthBytes, ' ');
  header.text = length_prefix(text.size()) + text;

  const std::int64_t start = std::ssize(header.text);
  for (TensorEntry& tensor : tensors) tensor.offset += start;
  header.tensors = std::move(tensors);
  header.file_bytes = start + end;
  return header;
}

SafetensorsHeader read_header(const File& file) {
  const Context context{file.path()};
  SafetensorsHeader header{
      .text = header_text(file, context), .tensors = {}, .file_bytes = file.size()};
  const json root = parse_without_duplicates(header.text.substr(kLengthBytes), context);
  context.need(root.is_object(), "its header is no JSON object");
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") {
      check_metadata(value, context);
    } else {
      header.tensors.push_back(parse_tensor(name, value, context));
    }
  }
  std::ranges::stable_sort(header.tensors, {}, [](const TensorEntry& t) {
    return std::pair(t.offset, t.bytes());  // empty tensors share their offset with the next one
  });
  const std::int64_t start = std::ssize(header.text);
  check_placement(header.tensors, header.file_bytes - start, context);
  for (TensorEntry& tensor : header.tensors) tensor.offset += start;
  return header;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(open_regular(path)), header_(read_header(file_)), by_name_(header_.tensors.size()) {
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::ranges::sort(by_name_, {},
                    [&](std::size_t i) -> const std::string& { return header_.tensors[i].name; });
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto name_of = [&](std::size_t i) { return std::string_view(header_.tensors[i].name); };
  const auto at = std::ranges::lower_bound(by_name_, name, {}, name_of);
  return at != by_name_.end() && name_of(*at) == name ? &header_.tensors[*at] : nullptr;
}

void SafetensorsFile::read(const TensorEntry& tensor, std::int64_t first,
                           std::span<float> elements) const {
  CLEAVE_CHECK(first >= 0 && first + std::ssize(elements) <= tensor.shape.elements(), tensor.name,
               ": ", first, " + ", elements.size());
  require(is_real(tensor.type), path().string(), " has tensor \"", tensor.name, "\" of type ",
          type_name(tensor.type), ", but a real number is needed there");
  const auto bytes = std::as_writable_bytes(elements);
  const std::int64_t offset = tensor.offset + first * size_of(tensor.type);
  if (tensor.type == StoredType::F32) {
    file_.read(bytes, offset);
    return;
  }
  // Read into the upper half of the buffer, widen from below. bf16 is the upper half of f32.
  const auto packed = bytes.last(bytes.size() / 2);
  file_.read(packed, offset);
  std::array<std::uint16_t, 2048> halves;  // a copy, so that compilers see no overlap
  for (std::size_t done = 0; done < elements.size(); done += halves.size()) {
    const std::size_t count = std::min(halves.size(), elements.size() - done);
    std::memcpy(halves.data(), packed.data() + 2 * done, 2 * count);
    float* const out = elements.data() + done;
    if (tensor.type == StoredType::F16) {
      for (std::size_t i = 0; i < count; ++i) out[i] = widen_half(halves[i]);
    } else {
      for (std::size_t i = 0; i < count; ++i)
        out[i] = std::bit_cast<float>(std::uint32_t{halves[i]} << 16);
    }
  }
}

void SafetensorsFile::read_bytes(std::int64_t offset, std::span<std::byte> bytes) const {
  file_.read(bytes, offset);
}

}  // namespace cleave::checkpoint
