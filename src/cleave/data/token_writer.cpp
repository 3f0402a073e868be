#include "cleave/data/token_writer.h"

#include <cstring>
#include <vector>

#include "cleave/base/check.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNumpyHeader = 128;  // bytes, wherever the number of tokens ends
constexpr std::int64_t kNarrowTokens = 1 << 16;

struct PackedForm {
  std::string_view ending;
  bool numpy;
  int width;  // 0: what the vocabulary needs
};

constexpr PackedForm kPackedForms[] = {
    {".npy", true, 0}, {".u32.bin", false, 4}, {".bin", false, 2}};

const PackedForm& form_of(const fs::path& path) {
  for (const PackedForm& form : kPackedForms) {
    if (path.filename().string().ends_with(form.ending)) return form;
  }
  throw UserError(
      detail::concat("--out ", path.string(), " must end in .npy, .bin (u16) or .u32.bin (u32)"));
}

fs::path partial_of(const fs::path& path) {
  form_of(path);
  fs::path partial = path;
  return partial += ".partial";
}

}  // namespace

TokenWriter::TokenWriter(const fs::path& path, std::int64_t vocabulary, Room room)
    : path_(path), partial_(partial_of(path)), file_(File::open_or_create(partial_)) {
  const PackedForm& form = form_of(path);
  const bool marked = room == Room::Marked;
  const int needed = vocabulary <= kNarrowTokens && !marked ? 2 : 4;
  numpy_ = form.numpy;
  width_ = form.width == 0 ? needed : form.width;
  if (width_ < needed) fs::remove(partial_);
  require(width_ >= needed || !marked,
          "conversations need tokens of 32 bits, one of which says "
          "what is learned, and ",
          path.string(), " has 16; end --out in .u32.bin or .npy");
  require(width_ >= needed, "a vocabulary of ", vocabulary, " does not fit the 16-bit tokens of ",
          path.string(), "; end --out in .u32.bin or .npy");
  file_.truncate(0);
  bytes_ = numpy_ ? kNumpyHeader : 0;
}

TokenWriter::~TokenWriter() {
  std::error_code ignored;
  if (!finished_) fs::remove(partial_, ignored);
}

void TokenWriter::append(std::span<const std::int32_t> tokens) {
  std::vector<std::byte> packed(tokens.size() * static_cast<std::size_t>(width_));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::memcpy(packed.data() + i * width_, &tokens[i], width_);  // little-endian
  }
  write(packed);
}

void TokenWriter::append_marked(std::span<const std::uint32_t> tokens) {
  require(width_ == 4, "conversations need tokens of 32 bits, and ", path_.string(),
          " was begun with 16 for other text; tokenize them apart");
  write(std::as_bytes(tokens));
}

void TokenWriter::write(std::span<const std::byte> packed) {
  file_.write(packed, bytes_);
  bytes_ += std::ssize(packed);
  tokens_ += std::ssize(packed) / width_;
}

std::string TokenWriter::header() const {
  std::string text = detail::concat("{'descr': '<u", width_,
                                    "', 'fortran_order': False, 'shape': (", tokens_, ",), }");
  const std::size_t before = 10;  // magic, version, length
  text.resize(kNumpyHeader - before - 1, ' ');
  text += '\n';
  const std::string length = {static_cast<char>(text.size() & 0xff),
                              static_cast<char>(text.size() >> 8)};
  return std::string("\x93NUMPY\x01\x00", 8) + length + text;
}

void TokenWriter::finish() {
  const std::string text = header();
  if (numpy_) file_.write(std::as_bytes(std::span(text)), 0);
  file_.sync();
  fs::rename(partial_, path_);
  finished_ = true;
}

}  // namespace cleave::data
