#include "cleave/data/token_stream.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "cleave/base/check.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSmallFile = 64 * 1024;
constexpr std::size_t kTextProbe = 8 * 1024;

bool is_tokens(const fs::path& path) {
  return path.extension() == ".bin";
}

int token_width(const fs::path& path, TokenType type) {
  if (!is_tokens(path)) return 1;
  if (type != TokenType::Auto) return type == TokenType::U16 ? 2 : 4;
  return path.stem().extension() == ".u32" ? 4 : 2;
}

bool looks_like_text(std::span<const std::byte> bytes) {
  const auto probe = bytes.first(std::min(bytes.size(), kTextProbe));
  return std::ranges::find(probe, std::byte{0}) == probe.end();
}

/// The train.out of some run: text in it changes with every run.
bool is_out_directory(const fs::path& directory) {
  return fs::is_directory(directory / "checkpoints") && fs::exists(directory / "config.toml");
}

/// Regular files below `directory`, sorted by path, without hidden ones, .bin and those of runs.
std::vector<fs::path> text_candidates(const fs::path& directory, const fs::path& leave_out) {
  std::vector<fs::path> found;
  try {
    for (auto entry = fs::recursive_directory_iterator(directory);
         entry != fs::recursive_directory_iterator(); ++entry) {
      const bool hidden = entry->path().filename().string().starts_with('.');
      if (entry->is_directory() &&
          (hidden || is_out_directory(entry->path()) || fs::canonical(entry->path()) == leave_out))
        entry.disable_recursion_pending();
      if (!hidden && entry->is_regular_file() && !is_tokens(entry->path())) {
        found.push_back(entry->path());
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw UserError(
        detail::concat("cannot read ", error.path1().string(), ": ", error.code().message()));
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

TokenStream::TokenStream(const fs::path& path, TokenType type, std::int64_t vocab,
                         const StreamOptions& options)
    : path_(path), vocab_(vocab) {
  constexpr const char* kRemedy =
      "; set it to a text file, a directory of text or a .bin of tokens";
  require(!path.empty(), options.key, " is missing", kRemedy);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  require(fs::exists(status), "cannot read ", options.key, " ", path.string(), ": ",
          error ? error.message() : "No such file or directory", kRemedy);
  if (fs::is_directory(status)) {
    add_text_directory(path, options);
    return;
  }
  require(fs::is_regular_file(status), "cannot read ", options.key, " ", path.string(),
          ": it is neither a file nor a directory", kRemedy);
  width_ = token_width(path, type);
  add_file(path);
  require(size_ > 0, path.string(), " is empty; give a file with at least one sequence");
}

void TokenStream::add_text_directory(const fs::path& directory, const StreamOptions& options) {
  std::error_code error;
  const fs::path leave_out = fs::weakly_canonical(options.leave_out, error);
  require(options.leave_out.empty() || fs::weakly_canonical(directory, error) != leave_out,
          options.key, " ", directory.string(),
          " is train.out too, where this run writes; choose another train.out");
  for (const fs::path& path : text_candidates(directory, leave_out)) add_file(path);
  require(size_ > 0, directory.string(),
          " has no text in it; give a directory with text files, or one .bin file of tokens");
}

void TokenStream::add_file(const fs::path& path) {
  const File file = File::open(path);
  const auto bytes = static_cast<std::size_t>(file.size());
  require(bytes % width_ == 0, path.string(), " has ", bytes,
          " bytes, which is no whole number of ", width_,
          "-byte tokens; it was cut off, or data.dtype is not its type");
  if (bytes == 0) return;

  const bool from_directory = path != path_;
  if (bytes >= kSmallFile) {
    MappedFile mapped(file);
    if (from_directory && !looks_like_text(mapped.bytes())) return;
    add_piece(path, mapped.bytes());
    mapped_.push_back(std::move(mapped));
  } else {
    std::vector<std::byte> copy(bytes);
    file.read(copy, 0);
    if (from_directory && !looks_like_text(copy)) return;
    add_piece(path, copy);
    copied_.push_back(std::move(copy));
  }
}

void TokenStream::add_piece(const fs::path& path, std::span<const std::byte> bytes) {
  pieces_.push_back({.bytes = bytes, .first = size_, .path = path});
  size_ += static_cast<std::int64_t>(bytes.size()) / width_;
}

std::int64_t TokenStream::token(const Piece& piece, std::int64_t index) const {
  const std::byte* at = piece.bytes.data() + index * width_;
  if (width_ == 1) return std::to_integer<std::int64_t>(*at);
  std::uint32_t value = 0;  // little-endian, as is every machine we run on
  std::memcpy(&value, at, width_);
  return value;
}

void TokenStream::read(std::int64_t offset, std::span<std::int32_t> tokens) const {
  CLEAVE_CHECK(offset >= 0 && offset + std::ssize(tokens) <= size_, offset, " + ", tokens.size(),
               " of ", size_);
  auto piece = std::ranges::upper_bound(pieces_, offset, {}, &Piece::first) - 1;
  std::int64_t index = offset - piece->first;
  for (std::int32_t& out : tokens) {
    if (index == std::ssize(piece->bytes) / width_) {
      ++piece;
      index = 0;
    }
    const std::int64_t value = token(*piece, index);
    if (value >= vocab_) [[unlikely]]
      fail_vocab(*piece, index);
    out = static_cast<std::int32_t>(value);
    ++index;
  }
}

void TokenStream::check_tokens() const {
  if (width_ == 1 && vocab_ >= 256) return;
  for (const Piece& piece : pieces_) {
    const std::int64_t count = std::ssize(piece.bytes) / width_;
    for (std::int64_t index = 0; index < count; ++index) {
      if (token(piece, index) >= vocab_) fail_vocab(piece, index);
    }
  }
}

void TokenStream::fail_vocab(const Piece& piece, std::int64_t index) const {
  const std::int64_t value = token(piece, index);
  throw UserError(detail::concat(piece.path.string(), " has token ", value, " at position ", index,
                                 ", but model.vocab is ", vocab_, "; set model.vocab to at least ",
                                 value + 1,
                                 width_ == 1 ? " (256 for bytes)" : ", or check data.dtype"));
}

}  // namespace cleave::data
