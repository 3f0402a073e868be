#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "cleave/base/file.h"

namespace cleave::data {

/// Writes a packed file of tokens: raw numbers (.bin: u16, .u32.bin: u32), as nanoGPT has them, or
/// an array of NumPy (.npy: the narrower type that holds the vocabulary).
class TokenWriter {
 public:
  /// How wide the tokens of an .npy are: as the vocabulary needs it, or with room for kUntrained.
  enum class Room : std::uint8_t { OfVocabulary, Marked };

  /// Throws UserError for another ending, or one whose numbers are too small for the vocabulary.
  TokenWriter(const std::filesystem::path& path, std::int64_t vocabulary,
              Room room = Room::OfVocabulary);

  void append(std::span<const std::int32_t> tokens);

  /// Tokens with kUntrained (chat.h) in those that are not to be predicted. Throws UserError if the
  /// file's have 16 bits.
  void append_marked(std::span<const std::uint32_t> tokens);

  /// Completes the file under its name; without this there is none.
  void finish();
  ~TokenWriter();

  std::int64_t tokens() const { return tokens_; }
  int width() const { return width_; }  ///< bytes of a token

 private:
  std::string header() const;
  void write(std::span<const std::byte> packed);

  std::filesystem::path path_;
  std::filesystem::path partial_;
  bool numpy_ = false;
  int width_ = 2;
  std::int64_t tokens_ = 0;
  std::int64_t bytes_ = 0;
  bool finished_ = false;
  File file_;
};

}  // namespace cleave::data
