#include "cleave/data/compression.h"

#include <memory>

#include <zlib.h>
#include <zstd.h>

#include "cleave/base/check.h"
#include "cleave/base/file.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostUnpacked = std::size_t{16} << 30;
constexpr std::size_t kUnpackStep = std::size_t{1} << 20;

void check_unpacked(std::size_t bytes, const fs::path& path) {
  require(bytes <= kMostUnpacked, path.string(),
          " is larger than 16 GiB when unpacked; unpack it to a file first");
}

std::string unpack_gzip(std::string_view packed, const fs::path& path) {
  z_stream stream{};
  constexpr int kGzip = 16;
  CLEAVE_CHECK(inflateInit2(&stream, 15 + kGzip) == Z_OK, "inflateInit2");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  std::string out;
  std::string part(kUnpackStep, '\0');
  int status = Z_OK;
  while (!packed.empty()) {
    const std::size_t step = std::min(packed.size(), kUnpackStep);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream.avail_in = static_cast<uInt>(step);
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    status = inflate(&stream, Z_NO_FLUSH);
    require(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR, path.string(),
            " is no gzip file, or a damaged one");
    const std::size_t taken = step - stream.avail_in;
    const std::size_t made = part.size() - stream.avail_out;
    out.append(part, 0, made);
    packed.remove_prefix(taken);
    check_unpacked(out.size(), path);
    require(taken + made > 0, path.string(), " is a damaged gzip file");
    // gzip files may follow each other in one.
    if (status == Z_STREAM_END && !packed.empty()) inflateReset(&stream);
  }
  // What is left in the stream's own memory.
  while (status == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    status = inflate(&stream, Z_NO_FLUSH);
    out.append(part, 0, part.size() - stream.avail_out);
    check_unpacked(out.size(), path);
  }
  require(status == Z_STREAM_END, path.string(), " is a gzip file that was cut off");
  return out;
}

std::string unpack_zstd(std::string_view packed, const fs::path& path) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                             ZSTD_freeDStream);
  std::string out;
  std::string part(kUnpackStep, '\0');
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  std::size_t left = 1;  // 0: a frame is complete
  bool more = true;
  while (in.pos < in.size || more) {
    ZSTD_outBuffer to{part.data(), part.size(), 0};
    left = ZSTD_decompressStream(stream.get(), &to, &in);
    require(ZSTD_isError(left) == 0, path.string(), " is no zstd file, or a damaged one");
    out.append(part, 0, to.pos);
    check_unpacked(out.size(), path);
    more = left != 0 && to.pos == to.size;
  }
  require(left == 0, path.string(), " is a zstd file that was cut off");
  return out;
}

struct Compression {
  std::string_view extension;
  std::string (*unpack)(std::string_view packed, const fs::path& path);
};

constexpr Compression kCompressions[] = {
    {".gz", unpack_gzip}, {".zst", unpack_zstd}, {".zstd", unpack_zstd}};

const Compression* compression_of(const fs::path& path) {
  for (const Compression& known : kCompressions) {
    if (path.extension() == known.extension) return &known;
  }
  return nullptr;
}

struct ForeignKind {
  std::string_view first_bytes;
  std::string_view name;
};

using namespace std::string_view_literals;

constexpr ForeignKind kForeignKinds[] = {
    {"PAR1"sv, "a Parquet file"},
    {"ARROW1"sv, "an Arrow file"},
    // Three bytes each: two alone may be the first token of a file of tokens.
    {"\x80\x02\x8a"sv, "a Python pickle"},
    {"\x80\x02}"sv, "a Python pickle"},
    {"\x80\x02]"sv, "a Python pickle"},
    {"\x80\x02"
     "c"sv,
     "a Python pickle"},
    {"\x80\x03}"sv, "a Python pickle"},
    {"\x80\x03]"sv, "a Python pickle"},
    {"\x80\x03"
     "c"sv,
     "a Python pickle"},
    {"\x80\x04\x95"sv, "a Python pickle"},
    {"\x80\x05\x95"sv, "a Python pickle"},
    {"PK\x03\x04"sv, "a zip archive (.npz, .pt and .zip are such)"},
    {"\x1f\x8b\x08"sv, "a gzip file without the ending .gz"},
    {"\x28\xb5\x2f\xfd"sv, "a zstd file without the ending .zst"},
    {"\xfd\x37zXZ"sv, "an xz file"},
    {"BZh"sv, "a bzip2 file"},
    {"\x04\x22\x4d\x18"sv, "an LZ4 file"},
    {"GGUF"sv, "a GGUF file"},
    {"\x89HDF"sv, "an HDF5 file"},
    {"SQLite format 3"sv, "an SQLite database"},
    {"%PDF"sv, "a PDF file"},
    {"MMIDIDX\0\0"sv, "the index of a Megatron file (its .bin beside it is what to name)"},
    {"\x89PNG\r\n"sv, "a PNG image (cleave data pack makes a set of images)"},
    {"\xff\xd8\xff\xe0"sv, "a JPEG image (cleave data pack makes a set of images)"},
    {"\xff\xd8\xff\xe1"sv, "a JPEG image (cleave data pack makes a set of images)"},
};

}  // namespace

bool is_compressed(const fs::path& path) {
  return compression_of(path) != nullptr;
}

FileContent read_content(const fs::path& path) {
  FileContent content{.bytes = read_text(path), .name = path};
  if (const Compression* compression = compression_of(path)) {
    content.bytes = compression->unpack(content.bytes, path);
    content.name = path.parent_path() / path.stem();
  }
  return content;
}

std::string_view foreign_kind(std::string_view first_bytes) {
  for (const ForeignKind& kind : kForeignKinds) {
    if (first_bytes.starts_with(kind.first_bytes)) return kind.name;
  }
  constexpr std::size_t kTarMark = 257;  // after the name, mode, owner and time of the first file
  if (first_bytes.size() > kTarMark && first_bytes.substr(kTarMark).starts_with("ustar"))
    return "a tar archive";
  // The length of a description, which is far below 2^32, and the description.
  if (first_bytes.substr(0, 10).ends_with("\0\0\0\0{\""sv)) return "a safetensors file";
  return {};
}

}  // namespace cleave::data
