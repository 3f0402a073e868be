#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::data {

/// Which of the special tokens that a tokenizer puts around a document are wanted: those before it,
/// those after it, or both.
enum class Framing : std::uint8_t { None = 0, Begin = 1, End = 2, Document = 3 };

inline bool has(Framing framing, Framing part) {
  return (static_cast<int>(framing) & static_cast<int>(part)) != 0;
}

/// Whether special tokens show in decoded text.
enum class Specials : std::uint8_t { Keep, Skip };

/// Turns text into tokens. It keeps memory from call to call: one for each thread.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  /// Appends the tokens of `text`; where it is no UTF-8, U+FFFD stands for what is broken.
  virtual void append(std::string_view text, Framing framing,
                      std::vector<std::int32_t>& tokens) = 0;
};

/// Text to tokens and back. Threads may share one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// One more than the largest token.
  virtual std::int64_t vocabulary() const = 0;

  /// What the tokenizer may not outlive: it borrows this.
  virtual std::unique_ptr<TextEncoder> encoder() const = 0;

  /// The bytes of `tokens`; numbers without a token are left out. They need not be UTF-8 where a
  /// character is cut.
  virtual std::string decode(std::span<const std::int32_t> tokens, Specials specials) const = 0;

  /// The token of this name, special or not.
  virtual std::optional<std::int32_t> id_of(std::string_view name) const = 0;

  /// Ends a document, if the tokenizer has such a token.
  virtual std::optional<std::int32_t> end_token() const = 0;

  std::vector<std::int32_t> encode(std::string_view text, Framing framing = Framing::None) const;
};

/// Opens "bytes", a tokenizer.json, a tokenizer.model, or the one in a directory. Throws UserError:
/// missing, or not what it claims to be.
std::unique_ptr<const Tokenizer> open_tokenizer(const std::string& name);

/// The same from the text of a tokenizer.json; `end_name` is the name of its end token, if known.
std::unique_ptr<const Tokenizer> parse_tokenizer_json(std::string_view text,
                                                      const std::string& end_name = "");

/// The tokenizer file in `directory` that open_tokenizer would take; empty if there is none.
std::filesystem::path find_tokenizer(const std::filesystem::path& directory);

/// What open_tokenizer reads beside a tokenizer.json for the name of its end token, if it is there;
/// empty for tokenizers of another kind.
std::filesystem::path tokenizer_config_beside(const std::filesystem::path& tokenizer);

/// Text from tokens that come one by one.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, Specials specials)
      : tokenizer_(&tokenizer), specials_(specials) {}

  /// The bytes that are certain now. A character that is cut over tokens may have to wait.
  std::string add(std::int32_t token);

  /// What still waits.
  std::string finish();

 private:
  std::string rest() const;

  const Tokenizer* tokenizer_;
  Specials specials_;
  std::vector<std::int32_t> shown_;    // of the last piece: spaces depend on what stands before
  std::vector<std::int32_t> waiting_;  // not shown yet
};

}  // namespace cleave::data
