#include "cleave/data/token_stream.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSmallFile = 64 * 1024;
constexpr std::int64_t kTextProbe = 8 * 1024;
constexpr std::int64_t kBlock = 16 * 1024;  ///< bytes that are read at once
constexpr int kMostOpen = 256;              ///< files; more are opened each time they are read
constexpr std::int64_t kDigestBlock = 1 << 20;
constexpr std::int64_t kDigestBlocks = 512;  ///< that a digest reads of large data, or up to twice

bool is_tokens(const fs::path& path) {
  return path.extension() == ".bin";
}

int token_width(const fs::path& path, TokenType type) {
  if (!is_tokens(path)) return 1;
  if (type != TokenType::Auto) return type == TokenType::U16 ? 2 : 4;
  return path.stem().extension() == ".u32" ? 4 : 2;
}

bool looks_like_text(std::span<const std::byte> bytes) {
  const auto probe = bytes.first(std::min<std::size_t>(bytes.size(), kTextProbe));
  return std::ranges::find(probe, std::byte{0}) == probe.end();
}

std::int64_t token_at(const std::byte* at, int width) {
  if (width == 1) return std::to_integer<std::int64_t>(*at);
  std::uint32_t value = 0;  // little-endian, as is every machine we run on
  std::memcpy(&value, at, width);
  return value;
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
      std::error_code error;
      const fs::file_status status = entry->status(error);
      if (error && entry->is_symlink()) continue;  // it leads nowhere, or in a circle
      const bool hidden = entry->path().filename().string().starts_with('.');
      if (fs::is_directory(status) &&
          (hidden || is_out_directory(entry->path()) || fs::canonical(entry->path()) == leave_out))
        entry.disable_recursion_pending();
      if (!hidden && fs::is_regular_file(status) && !is_tokens(entry->path())) {
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
  File file = File::open(path);
  const std::int64_t bytes = file.size();
  require(bytes % width_ == 0, path.string(), " has ", bytes,
          " bytes, which is no whole number of ", width_,
          "-byte tokens; it was cut off, or data.dtype is not its type");
  if (bytes == 0) return;

  const bool is_small = bytes < kSmallFile;
  std::vector<std::byte> start(static_cast<std::size_t>(is_small ? bytes : kTextProbe));
  file.read(start, 0);
  if (path != path_ && !looks_like_text(start)) return;
  pieces_.push_back({.first = size_, .bytes = bytes, .path = path, .copy = {}, .file = {}});
  size_ += bytes / width_;
  if (is_small) {
    pieces_.back().copy = std::move(start);
  } else if (open_files_ < kMostOpen) {
    ++open_files_;
    pieces_.back().file.emplace(std::move(file));
  }
}

void TokenStream::read_bytes(const Piece& piece, std::int64_t offset,
                             std::span<std::byte> bytes) const {
  if (!piece.copy.empty()) {
    std::memcpy(bytes.data(), piece.copy.data() + offset, bytes.size());
  } else if (piece.file) {
    piece.file->read(bytes, offset);
  } else {
    File::open(piece.path).read(bytes, offset);
  }
}

void TokenStream::read_piece(const Piece& piece, std::int64_t index,
                             std::span<std::int32_t> tokens) const {
  std::array<std::byte, kBlock> block;
  const std::int64_t at_once = kBlock / width_;
  for (std::int64_t done = 0; done < std::ssize(tokens);) {
    const std::int64_t count = std::min(at_once, std::ssize(tokens) - done);
    const auto bytes = std::span(block).first(static_cast<std::size_t>(count * width_));
    read_bytes(piece, (index + done) * width_, bytes);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t value = token_at(bytes.data() + i * width_, width_);
      if (value >= vocab_) [[unlikely]]
        fail_vocab(piece, index + done + i, value);
      tokens[done + i] = static_cast<std::int32_t>(value);
    }
    done += count;
  }
}

void TokenStream::read(std::int64_t offset, std::span<std::int32_t> tokens) const {
  CLEAVE_CHECK(offset >= 0 && offset + std::ssize(tokens) <= size_, offset, " + ", tokens.size(),
               " of ", size_);
  auto piece = std::ranges::upper_bound(pieces_, offset, {}, &Piece::first) - 1;
  for (std::int64_t index = offset - piece->first; !tokens.empty(); ++piece, index = 0) {
    const std::int64_t count = std::min(piece->bytes / width_ - index, std::ssize(tokens));
    read_piece(*piece, index, tokens.first(static_cast<std::size_t>(count)));
    tokens = tokens.subspan(static_cast<std::size_t>(count));
  }
}

void TokenStream::check_tokens() const {
  if (width_ == 1 && vocab_ >= 256) return;
  std::vector<std::int32_t> tokens(kBlock);
  for (std::int64_t at = 0; at < size_; at += kBlock) {
    const std::int64_t count = std::min<std::int64_t>(kBlock, size_ - at);
    read(at, std::span(tokens).first(static_cast<std::size_t>(count)));
  }
}

std::uint64_t TokenStream::digest() const {
  Hasher hasher;
  std::vector<std::byte> block(kDigestBlock);
  // Blocks spread evenly, so that data of any size takes a second or so.
  std::int64_t total = 0;
  for (const Piece& piece : pieces_) total += (piece.bytes + kDigestBlock - 1) / kDigestBlock;
  const std::int64_t stride = std::max<std::int64_t>(1, total / kDigestBlocks);
  std::int64_t number = 0;
  for (const Piece& piece : pieces_) {
    hasher.add(std::to_string(piece.bytes) + "\n");
    for (std::int64_t at = 0; at < piece.bytes; at += kDigestBlock, ++number) {
      if (number % stride != 0) continue;
      const auto bytes = std::span(block).first(
          static_cast<std::size_t>(std::min(kDigestBlock, piece.bytes - at)));
      read_bytes(piece, at, bytes);
      hasher.add(std::span<const std::byte>(bytes));
    }
  }
  return hasher.digest();
}

void TokenStream::fail_vocab(const Piece& piece, std::int64_t index, std::int64_t value) const {
  throw UserError(detail::concat(piece.path.string(), " has token ", value, " at position ", index,
                                 ", but model.vocab is ", vocab_, "; set model.vocab to at least ",
                                 value + 1,
                                 width_ == 1 ? " (256 for bytes)" : ", or check data.dtype"));
}

}  // namespace cleave::data
