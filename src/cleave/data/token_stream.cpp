#include "cleave/data/token_stream.h"

#include <algorithm>
#include <array>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"
#include "cleave/data/chat.h"
#include "cleave/data/compression.h"
#include "cleave/data/document_begins.h"
#include "cleave/data/documents.h"
#include "cleave/data/text_files.h"
#include "cleave/data/text_tokens.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSmallFile = 64 * 1024;
constexpr std::size_t kMostOpenFiles = 256;
constexpr std::int64_t kMostText = std::int64_t{2} << 30;
constexpr std::size_t kCountedAtOnce = 4096;  // tokens, on the stack
constexpr std::int64_t kDigestBlock = 1 << 20;
constexpr std::int64_t kDigestBlocks = 512;  // that a digest reads of large data, or up to twice
constexpr const char* kPathRemedy =
    "; set it to a text file, a directory of text or a .bin of tokens";

bool looks_like_text(std::string_view head) {
  return head.find('\0') == std::string_view::npos;
}

std::string head_of(const File& file) {
  std::string head(std::min<std::size_t>(kPackedHead, static_cast<std::size_t>(file.size())), '\0');
  file.read(std::as_writable_bytes(std::span(head)), 0);
  return head;
}

/// Wide tokens of a file have room for kUntrained, unless that bit is a sign.
bool can_mask(const PackedLayout& layout) {
  return layout.width == sizeof(kUntrained) && !layout.is_signed;
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TokenStream::TokenStream(const fs::path& path, TokenType type, std::int64_t vocab,
                         const StreamOptions& options)
    : TokenStream(std::vector<fs::path>{path}, type, vocab, options) {}

TokenStream::TokenStream(std::vector<fs::path> paths, TokenType type, std::int64_t vocab,
                         const StreamOptions& options)
    : path_(paths.empty() ? fs::path() : paths[0]), type_(type), vocab_(vocab) {
  if (options.tokenizer != nullptr) end_token_ = options.tokenizer->end_token();
  require(!path_.empty(), options.key, " is missing", kPathRemedy);
  for (const fs::path& path : paths) add_path(path, options);
  require(size_ > 0, path_.string(),
          fs::is_directory(path_)
              ? " has no text in it; give a directory with text files, or one .bin file of tokens"
              : " is empty; give a file with at least one sequence");
}

void TokenStream::add_path(const fs::path& path, const StreamOptions& options) {
  if (path.string().starts_with(kGivenPrefix)) {
    GivenTokens given = given_tokens(path.string(), options.key);
    const PackedLayout layout{.offset = 0, .count = given.size, .width = sizeof(std::int32_t)};
    return add_piece({.path = path, .layout = layout, .given = std::move(given)});
  }
  std::error_code error;
  const fs::path leave_out = fs::weakly_canonical(options.leave_out, error);
  const bool directory = fs::is_directory(path, error);
  require(!directory || options.leave_out.empty() || fs::weakly_canonical(path, error) != leave_out,
          options.key, " ", path.string(),
          " is train.out too, where this run writes; choose another train.out");
  std::vector<fs::path> files;
  try {
    files = files_named(path, options.key, leave_out);
  } catch (const UserError& refused) {
    throw UserError(std::string(refused.what()) + kPathRemedy);
  }
  for (const fs::path& file : files) add_file(file, options, directory);
}

/// `listed`: it was found in a directory, where what is not text is left out.
void TokenStream::add_file(const fs::path& path, const StreamOptions& options, bool listed) {
  if (is_compressed(path)) return add_unpacked(path, options);
  auto file = std::make_unique<File>(File::open(path));
  const std::int64_t bytes = file->size();
  if (bytes == 0) return;
  const std::string head = head_of(*file);
  auto layout = packed_layout({.name = path, .head = head, .size = bytes, .type = type_});
  const bool is_text = !layout;
  if (is_text) {
    if (listed && (!looks_like_text(head) || !foreign_kind(head).empty())) return;
    if (options.tokenizer != nullptr || is_json_lines(path)) return add_text(path, options);
    const std::string_view foreign = foreign_kind(head);
    require(foreign.empty(), path.string(), " is ", foreign, ", neither text nor tokens");
    layout = PackedLayout{.offset = 0, .count = bytes, .width = 1};
  }
  TokenFile piece{.path = path, .layout = *layout};
  if (is_text) {
    piece.text = bytes;
    piece.starts = {0};
  } else if (options.borders == Borders::Kept) {
    piece.starts = document_starts({.name = path, .head = head, .size = bytes, .type = type_});
  }
  piece.masks = can_mask(*layout);
  if (bytes < kSmallFile) {
    piece.memory.resize(static_cast<std::size_t>(bytes));
    file->read(piece.memory, 0);
  } else if (pieces_.size() < kMostOpenFiles) {
    piece.file = std::move(file);
  }
  add_piece(std::move(piece));
}

void TokenStream::add_unpacked(const fs::path& path, const StreamOptions& options) {
  FileContent content = read_content(path);
  const std::string_view head = std::string_view(content.bytes).substr(0, kPackedHead);
  const auto size = static_cast<std::int64_t>(content.bytes.size());
  const auto layout =
      packed_layout({.name = content.name, .head = head, .size = size, .type = type_});
  if (!layout && (options.tokenizer != nullptr || is_json_lines(path))) {
    return add_text(path, options);
  }
  const std::string_view foreign = layout ? std::string_view() : foreign_kind(head);
  require(foreign.empty(), path.string(), " is ", path.extension().string(), " of ", foreign,
          ", neither text nor tokens");
  add_piece({.path = path,
             .layout = layout.value_or(PackedLayout{.offset = 0, .count = size, .width = 1}),
             .text = layout ? std::nullopt : std::optional(size),
             .starts = std::vector<std::int64_t>(layout ? 0 : 1),
             .masks = layout && can_mask(*layout),
             .memory = bytes_of(content.bytes)});
}

void TokenStream::add_text(const fs::path& path, const StreamOptions& options) {
  const Documents documents(path, options.chat);
  text_bytes_ += static_cast<std::int64_t>(documents.bytes());
  require(text_bytes_ <= kMostText, options.key, " ", path_.string(),
          " is more than 2 GiB of text; tokenize it once with `cleave data tokenize` and train on "
          "the file that it writes");
  TextTokens made = tokens_of(documents, options.tokenizer);
  const auto bytes = std::as_bytes(std::span(made.tokens));
  std::int64_t text = 0;
  for (const std::string_view document : documents.texts()) text += std::ssize(document);
  add_piece({.path = path,
             .layout = {.offset = 0, .count = std::ssize(made.tokens), .width = 4},
             .text = text,
             .starts = std::move(made.starts),
             .masks = documents.is_chat(),
             .memory = {bytes.begin(), bytes.end()}});
}

void TokenStream::check_borders() const {
  for (const TokenFile& piece : pieces_) {
    require(!piece.starts.empty() || end_token_, piece.path.string(),
            " has tokens, and nothing says where their documents end, which data.documents = "
            "\"apart\" needs; set data.tokenizer to one with an end token, or leave "
            "data.documents out");
  }
}

void TokenStream::read_begins(std::int64_t offset, std::span<std::int32_t> begins) const {
  const auto read = [&](const TokenFile& piece, std::int64_t index, std::int64_t count,
                        std::int64_t done) {
    const auto here =
        begins.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count));
    if (!piece.starts.empty()) return begins_from_starts(piece.starts, index, done, here);
    CLEAVE_CHECK(end_token_.has_value(), piece.path.string());
    piece.read(index, here, vocab_);
    begins_from_ends(*end_token_, done, here);
  };
  for_each_piece(offset, offset + std::ssize(begins), read);
}

std::optional<std::int64_t> TokenStream::text_bytes() const {
  std::int64_t sum = 0;
  for (const TokenFile& piece : pieces_) {
    if (!piece.text) return std::nullopt;
    sum += *piece.text;
  }
  return sum;
}

bool TokenStream::has_text() const {
  return std::ranges::any_of(pieces_,
                             [](const TokenFile& piece) { return piece.text.has_value(); });
}

void TokenStream::add_piece(TokenFile piece) {
  piece.first = size_;
  size_ += piece.layout.count;
  masks_ = masks_ || piece.masks;
  if (piece.layout.count > 0) pieces_.push_back(std::move(piece));
}

/// Calls `use(piece, index, count, done)` for each stretch of [first, end) in one piece.
template <class Use>
void TokenStream::for_each_piece(std::int64_t first, std::int64_t end, Use use) const {
  auto piece = std::ranges::upper_bound(pieces_, first, {}, &TokenFile::first) - 1;
  for (std::int64_t at = first; at < end; ++piece) {
    const std::int64_t index = at - piece->first;
    const std::int64_t count = std::min(end - at, piece->layout.count - index);
    use(*piece, index, count, at - first);
    at += count;
  }
}

void TokenStream::read(std::int64_t offset, std::span<std::int32_t> tokens) const {
  CLEAVE_CHECK(offset >= 0 && offset + std::ssize(tokens) <= size_, offset, " + ", tokens.size(),
               " of ", size_);
  for_each_piece(
      offset, offset + std::ssize(tokens),
      [&](const TokenFile& piece, std::int64_t index, std::int64_t count, std::int64_t done) {
        piece.read(index, tokens.subspan(done, count), vocab_);
      });
}

void TokenStream::read_targets(std::int64_t offset, std::span<std::int32_t> tokens) const {
  if (!masks_) return read(offset, tokens);
  for_each_piece(
      offset, offset + std::ssize(tokens),
      [&](const TokenFile& piece, std::int64_t index, std::int64_t count, std::int64_t done) {
        piece.read(index, tokens.subspan(done, count), vocab_, ReadAs::Targets);
      });
}

std::int64_t TokenStream::targets(std::int64_t first, std::int64_t end) const {
  if (!masks_) return end - first;
  std::int64_t sum = 0;
  std::array<std::int32_t, kCountedAtOnce> tokens;
  for (std::int64_t at = first; at < end;) {
    const auto here = std::min<std::int64_t>(end - at, std::ssize(tokens));
    const auto some = std::span(tokens).first(static_cast<std::size_t>(here));
    read_targets(at, some);
    sum += here - std::ranges::count(some, kNoTarget);
    at += here;
  }
  return sum;
}

void TokenStream::check_tokens(std::int64_t first, std::int64_t end) const {
  constexpr std::int64_t kMostAtOnce = 1 << 16;
  std::vector<std::int32_t> tokens(
      static_cast<std::size_t>(std::clamp<std::int64_t>(end - first, 0, kMostAtOnce)));
  for_each_piece(first, end,
                 [&](const TokenFile& piece, std::int64_t index, std::int64_t count, std::int64_t) {
                   if (piece.layout.width == 1 && vocab_ >= 256) return;
                   for (std::int64_t done = 0; done < count;) {
                     const std::int64_t here = std::min(count - done, std::ssize(tokens));
                     piece.read(index + done,
                                std::span(tokens).first(static_cast<std::size_t>(here)), vocab_);
                     done += here;
                   }
                 });
}

std::uint64_t TokenStream::digest() const {
  Hasher hasher;
  std::vector<std::byte> block(kDigestBlock);
  // Blocks spread evenly, so that data of any size takes a second or so.
  std::int64_t total = 0;
  for (const TokenFile& piece : pieces_) total += (piece.bytes() + kDigestBlock - 1) / kDigestBlock;
  const std::int64_t stride = std::max<std::int64_t>(1, total / kDigestBlocks);
  std::int64_t number = 0;
  for (const TokenFile& piece : pieces_) {
    hasher.add(std::to_string(piece.bytes()) + "\n");
    for (std::int64_t at = 0; at < piece.bytes(); at += kDigestBlock, ++number) {
      if (number % stride != 0) continue;
      const auto bytes = std::span(block).first(
          static_cast<std::size_t>(std::min(kDigestBlock, piece.bytes() - at)));
      piece.read_bytes(at, bytes);
      hasher.add(std::span<const std::byte>(bytes));
    }
  }
  return hasher.digest();
}

}  // namespace cleave::data
