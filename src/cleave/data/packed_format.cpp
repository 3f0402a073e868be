#include "cleave/data/packed_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/data/compression.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value{};
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::int64_t whole_tokens(const PackedProbe& probe, std::int64_t bytes, int width) {
  require(bytes % width == 0, probe.name.string(), " has ", bytes,
          " bytes, which is no whole number of ", width,
          "-byte tokens; it was cut off, or data.dtype is not its type");
  return bytes / width;
}

// ---- llm.c: 256 numbers of 32 bits, then tokens; the first two say how wide they are.

constexpr std::int64_t kLlmcHeader = 1024;
constexpr std::array<std::uint32_t, 2> kLlmcMagics = {20240520, 20240801};

/// Files that llm.c writes beside those of tokens.
struct LlmcOther {
  std::uint32_t magic;
  std::string_view name;
};
constexpr LlmcOther kLlmcOthers[] = {{20240326, "the weights of a model of llm.c"},
                                     {20240327, "a debugging state of llm.c"},
                                     {20240328, "a tokenizer of llm.c"},
                                     {20240522, "an evaluation set of llm.c"}};

bool is_llmc(const PackedProbe& probe) {
  const auto magic = number_at<std::uint32_t>(probe.head, 0);
  const bool versioned = number_at<std::uint32_t>(probe.head, 4) < 100;
  for (const LlmcOther& other : kLlmcOthers) {
    require(magic != other.magic || !versioned || probe.name.extension() != ".bin",
            probe.name.string(), " is ", other.name, ", not a file of tokens");
  }
  return versioned && probe.size >= kLlmcHeader &&
         std::ranges::find(kLlmcMagics, magic) != kLlmcMagics.end();
}

/// Of version 1, GPT-2's tokens, and version 7, Llama 3's; of others by the number of tokens that
/// the header promises.
int llmc_width(const PackedProbe& probe, std::int64_t promised) {
  const auto version = number_at<std::uint32_t>(probe.head, 4);
  if (version == 1) return 2;
  if (version == 7) return 4;
  for (const int width : {2, 4})
    if (probe.size - kLlmcHeader == promised * width) return width;
  throw UserError(detail::concat(
      probe.name.string(), " has a header of llm.c of version ", version, " and ", promised,
      " tokens, which its ", probe.size - kLlmcHeader,
      " bytes after that are not, of 16 or 32 bits each; it was cut off, or is of another kind"));
}

PackedLayout llmc_layout(const PackedProbe& probe) {
  const auto promised = number_at<std::uint32_t>(probe.head, 8);
  const int width = llmc_width(probe, promised);
  const std::int64_t count = whole_tokens(probe, probe.size - kLlmcHeader, width);
  require(static_cast<std::uint32_t>(count) == promised, probe.name.string(), " has ", count,
          " tokens, but its header says ", promised, "; ",
          count < promised ? "it was cut off" : "something was added to it");
  return {kLlmcHeader, count, width};
}

// ---- Megatron: raw numbers, described by an .idx file beside them.

constexpr std::string_view kMegatronMagic("MMIDIDX\0\0", 9);
constexpr std::size_t kMegatronHeader = 34;  // magic, version u64, type u8, two counts u64

bool is_megatron(const PackedProbe& probe) {
  const fs::path index = index_beside(probe.name);
  return !index.empty() && fs::exists(index);
}

constexpr bool megatron_signed(int code) {
  return code >= 2 && code <= 4;
}

int megatron_width(int code, const fs::path& index) {
  constexpr std::array<int, 9> kWidths = {0, 1, 1, 2, 4, 8, 0, 0, 2};  // by NumPy's types
  const int width = code >= 0 && code < 9 ? kWidths[code] : 0;
  require(width > 0, index.string(), " says that its tokens are numbers of type ", code,
          ", which are no tokens");
  return width;
}

PackedLayout megatron_layout(const PackedProbe& probe) {
  const File index = File::open(index_beside(probe.name));
  std::string head(kMegatronHeader, '\0');
  require(index.size() >= static_cast<std::int64_t>(kMegatronHeader), index.path().string(),
          " is no index of Megatron: it is too short");
  index.read(std::as_writable_bytes(std::span(head)), 0);
  require(head.starts_with(kMegatronMagic), index.path().string(),
          " is no index of Megatron: it does not begin with MMIDIDX");
  const auto version = number_at<std::uint64_t>(head, 9);
  require(version == 1, index.path().string(), " is an index of Megatron of version ", version,
          ", and cleave reads version 1");
  const int code = number_at<std::uint8_t>(head, 17);
  const int width = megatron_width(code, index.path());
  const std::int64_t count = whole_tokens(probe, probe.size, width);
  const auto sequences = number_at<std::uint64_t>(head, 18);
  // The counts of a damaged file may be any.
  const auto room = static_cast<std::uint64_t>(index.size()) - kMegatronHeader;
  const auto documents = number_at<std::uint64_t>(head, 26);
  require(sequences > 0 && sequences <= room / 12 && documents <= (room - 12 * sequences) / 8,
          index.path().string(), " was cut off");
  // The last sequence ends where the tokens end.
  std::int32_t length = 0;
  std::int64_t begin = 0;
  index.read(std::as_writable_bytes(std::span(&length, 1)),
             static_cast<std::int64_t>(kMegatronHeader + 4 * (sequences - 1)));
  index.read(std::as_writable_bytes(std::span(&begin, 1)),
             static_cast<std::int64_t>(kMegatronHeader + 4 * sequences + 8 * (sequences - 1)));
  require(length >= 0 && begin >= 0, index.path().string(), " has a sequence of ", length,
          " tokens at byte ", begin, "; make the index anew");
  require(begin <= probe.size - std::int64_t{length} * width, probe.name.string(),
          " is shorter than its index says; it was cut off");
  return {0, count, width, megatron_signed(code)};
}

/// `count` numbers from byte `at` on.
template <class T>
std::vector<T> numbers_in(const File& index, std::uint64_t at, std::uint64_t count) {
  const auto size = static_cast<std::uint64_t>(index.size());
  require(at <= size && count <= (size - at) / sizeof(T), index.path().string(), " was cut off");
  std::vector<T> numbers(count);
  index.read(std::as_writable_bytes(std::span(numbers)), static_cast<std::int64_t>(at));
  return numbers;
}

// After the header come the lengths of the sequences, the bytes at which they begin, and for each
// document, and then for the end of all, the number of its first sequence.
std::vector<std::int64_t> megatron_documents(const PackedProbe& probe) {
  const File index = File::open(index_beside(probe.name));
  std::string head(kMegatronHeader, '\0');
  index.read(std::as_writable_bytes(std::span(head)), 0);
  const int width = megatron_width(number_at<std::uint8_t>(head, 17), index.path());
  const auto sequences = number_at<std::uint64_t>(head, 18);
  const auto documents = number_at<std::uint64_t>(head, 26);
  const auto places = numbers_in<std::int64_t>(index, kMegatronHeader + 4 * sequences, sequences);
  std::vector<std::int64_t> starts;
  for (const std::int64_t first :
       numbers_in<std::int64_t>(index, kMegatronHeader + 12 * sequences, documents)) {
    require(first >= 0 && first <= static_cast<std::int64_t>(sequences), index.path().string(),
            " has a document that begins with sequence ", first, " of ", sequences);
    if (first < static_cast<std::int64_t>(sequences)) starts.push_back(places[first] / width);
  }
  require(!starts.empty() && starts.front() == 0 && std::ranges::is_sorted(starts),
          index.path().string(), " has documents that are not one after another");
  return starts;
}

// ---- NumPy: magic, version, the length of a description, then numbers.

constexpr std::string_view kNumpyMagic = "\x93NUMPY";

bool is_numpy(const PackedProbe& probe) {
  return probe.head.starts_with(kNumpyMagic);
}

/// The value of `key` in the description, which is a Python dictionary.
std::string_view numpy_value(std::string_view description, std::string_view key) {
  const std::size_t at = description.find(key);
  if (at == std::string_view::npos) return {};
  const std::size_t colon = description.find(':', at);
  const std::size_t begin = description.find_first_not_of(' ', colon + 1);
  return begin == std::string_view::npos ? std::string_view() : description.substr(begin);
}

/// The product of the numbers between parentheses, such as (3, 4); 1 for ().
std::int64_t numpy_elements(std::string_view shape, const PackedProbe& probe) {
  std::int64_t elements = 1;
  const std::string_view inside = shape.substr(0, shape.find(')'));
  for (std::size_t at = 0; at < inside.size();) {
    std::int64_t size = 0;
    const auto [end, error] =
        std::from_chars(inside.data() + at, inside.data() + inside.size(), size);
    if (error == std::errc() && size >= 0)
      require(!__builtin_mul_overflow(elements, size, &elements), probe.name.string(),
              " has a shape beyond all files: ", inside, ")");
    at = error == std::errc() ? static_cast<std::size_t>(end - inside.data()) : at + 1;
  }
  return elements;
}

struct NumpyType {
  std::string_view name;
  int width;
  bool is_signed = false;
};
constexpr NumpyType kNumpyTypes[] = {{"'|u1'", 1},       {"'|i1'", 1, true}, {"'<u2'", 2},
                                     {"'<i2'", 2, true}, {"'<u4'", 4},       {"'<i4'", 4, true},
                                     {"'<u8'", 8},       {"'<i8'", 8}};

PackedLayout numpy_layout(const PackedProbe& probe) {
  const bool wide = number_at<std::uint8_t>(probe.head, 6) >= 2;
  const std::size_t begin = wide ? 12 : 10;
  const std::size_t length =
      wide ? number_at<std::uint32_t>(probe.head, 8) : number_at<std::uint16_t>(probe.head, 8);
  require(begin <= probe.head.size(), probe.name.string(), " was cut off inside of its header");
  const std::string_view description = probe.head.substr(begin, length);
  const std::string_view type = numpy_value(description, "'descr'").substr(0, 5);
  const auto* known = std::ranges::find(kNumpyTypes, type, &NumpyType::name);
  require(known != std::end(kNumpyTypes), probe.name.string(), " is an array of ", type,
          ", which are no tokens; save whole numbers, such as uint16");
  const auto offset = static_cast<std::int64_t>(begin + length);
  require(offset <= probe.size, probe.name.string(), " was cut off inside of its header");
  const std::string_view shape = numpy_value(description, "'shape'");
  const bool columns = numpy_value(description, "'fortran_order'").starts_with("True");
  // One dim ends in a comma, as in (3,).
  const std::string_view after = shape.substr(std::min(shape.find(','), shape.size()));
  const bool several = after.substr(0, after.find(')')).find_first_of("0123456789") != after.npos;
  require(!columns || !several, probe.name.string(),
          " has its columns one after another (fortran_order), not its rows; save it in C order");
  const std::int64_t count = numpy_elements(shape, probe);
  const std::int64_t there = whole_tokens(probe, probe.size - offset, known->width);
  require(count <= there, probe.name.string(), " has ", there, " tokens, but its header says ",
          count, "; it was cut off");
  return {offset, count, known->width, known->is_signed};
}

// ---- Raw numbers, as nanoGPT writes them.

bool is_raw(const PackedProbe& probe) {
  return probe.name.extension() == ".bin";
}

/// Whether of every `step` numbers of 16 bits all but the first are 0, and the first are not.
bool only_every(const PackedProbe& probe, std::size_t step) {
  const std::size_t count = probe.head.size() / 2;
  bool any = false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = number_at<std::uint16_t>(probe.head, 2 * i);
    if (i % step != 0 && value != 0) return false;
    any |= value != 0;
  }
  return any && count >= 64;
}

PackedLayout raw_layout(const PackedProbe& probe) {
  const std::string_view foreign = foreign_kind(probe.head);
  require(foreign.empty(), probe.name.string(), " is ", foreign, ", not a file of tokens");
  const bool wide = probe.type == TokenType::U32 ||
                    (probe.type == TokenType::Auto && probe.name.stem().extension() == ".u32");
  if (probe.type == TokenType::Auto && !wide) {
    require(!only_every(probe, 4), probe.name.string(),
            " seems to hold int64 tokens; save them as uint16 or uint32, or as .npy");
    require(!only_every(probe, 2), probe.name.string(),
            " seems to hold u32 tokens; set data.dtype to \"u32\"");
  }
  const int width = wide ? 4 : 2;
  return {0, whole_tokens(probe, probe.size, width), width};
}

struct PackedFormat {
  bool (*is)(const PackedProbe&);
  PackedLayout (*layout)(const PackedProbe&);
};

constexpr PackedFormat kPackedFormats[] = {{is_numpy, numpy_layout},
                                           {is_megatron, megatron_layout},
                                           {is_llmc, llmc_layout},
                                           {is_raw, raw_layout}};

}  // namespace

fs::path index_beside(const fs::path& file) {
  return file.extension() == ".bin" ? fs::path(file).replace_extension(".idx") : fs::path();
}

std::vector<std::int64_t> document_starts(const PackedProbe& probe) {
  if (is_numpy(probe) || !is_megatron(probe)) return {};
  return megatron_documents(probe);
}

std::optional<PackedLayout> packed_layout(const PackedProbe& probe) {
  for (const PackedFormat& format : kPackedFormats) {
    if (format.is(probe)) return format.layout(probe);
  }
  return std::nullopt;
}

}  // namespace cleave::data
