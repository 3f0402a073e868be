#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "cleave/base/check.h"
#include "cleave/schedule/header_scanner.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/text_words.h"

namespace cleave::schedule {
namespace {

/// Reads line by line and word by word. Everything that is kept was written out in the text, so
/// memory is bounded by its size; numbers that only claim a size are checked before they are used.
class Reader : private HeaderScanner {
 public:
  explicit Reader(std::string_view text) : HeaderScanner(text) {}

  ReadProgram read() {
    while (next_line()) {
      if (words_.empty()) continue;
      if (stated_hash_) fail(words_[0], "nothing follows the hash");
      if (!versioned_) {
        version_line();
      } else if (words_[0][0] >= 'a' && words_[0][0] <= 'z') {
        statement();
      } else {
        for (std::string_view token : words_) instruction(token);
      }
    }
    if (!versioned_) fail_at_end("the text ends before its first line, 'cleave-program 2'");
    finish();
    const bool matches = !stated_hash_ || *stated_hash_ == content_hash(program_, version_);
    if (version_ == 1) upgrade_from_version_1(program_);
    return {std::move(program_), matches};
  }

 private:
  void version_line() {
    if (words_[0] != "cleave-program") fail(words_[0], "a program begins with 'cleave-program 2'");
    version_ = static_cast<int>(number(1, 1, 1'000'000));
    if (version_ > kTextVersion)
      fail(words_[1], "this is version ", version_, " of the text form; known are 1 to ",
           kTextVersion);
    no_more_than(2);
    versioned_ = true;
  }

  void statement() {
    const std::string_view word = words_[0];
    if (word == "device") return device();
    if (word == "buffer") return buffer();
    if (word == "hash") return hash();
    if (!program_.lists.empty()) fail(word, quoted(word), " belongs before the first device");
    header_line();
  }

  void device() {
    if (!program_.buffers.empty()) fail(words_[0], "devices come before buffers");
    if (program_.lists.empty()) check_header();
    if (below(1, program_.devices) != static_cast<int>(program_.lists.size()))
      fail(words_[1], "the next device is ", program_.lists.size());
    program_.lists.emplace_back();
    for (std::size_t k = 2; k < words_.size(); ++k) instruction(words_[k]);
  }

  void instruction(std::string_view token) {
    if (program_.lists.empty())
      fail(token, quoted(token), " is no word of the header, and no device has begun");
    const auto parsed = parse_instruction(token);
    if (!parsed) fail(token, quoted(token), " is no instruction");
    if (!program_.buffers.empty()) fail(token, "instructions come before buffers");
    program_.lists.back().push_back(*parsed);
  }

  void buffer() {
    Buffer b;
    const auto kind = words_.size() > 1 ? buffer_kind(words_[1]) : std::nullopt;
    if (!kind) fail(words_[words_.size() > 1], "no kind of buffer");
    b.kind = *kind;
    constexpr int kMost = std::numeric_limits<std::int32_t>::max();
    b.device = below(2, std::max(program_.devices, 1));
    b.bytes = bytes(3);
    b.first = below(4, kMost);
    b.last = below(5, kMost);
    for (std::size_t k = 6; k < words_.size(); ++k) {
      const std::string_view key = words_[k];
      std::int32_t* field = key == "stage"        ? &b.stage
                            : key == "segment"    ? &b.segment
                            : key == "edge"       ? &b.edge
                            : key == "microbatch" ? &b.microbatch
                                                  : nullptr;
      if (field != nullptr)
        *field = below(++k, kMost);
      else if (key == "backward")
        b.direction = Direction::Backward;
      else if (key == "offset")
        b.offset = bytes(++k);
      else
        fail(key, quoted(key), " says nothing about a buffer");
    }
    program_.buffers.push_back(b);
  }

  void hash() {
    const std::string_view word = words_.size() > 1 ? words_[1] : std::string_view();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, 16);
    if (word.size() != 16 || error != std::errc() || end != word.data() + word.size())
      fail(words_[words_.size() > 1], "a hash has sixteen hexadecimal digits");
    no_more_than(2);
    stated_hash_ = value;
  }

  void finish() {
    if (program_.lists.empty()) fail_at_end("the text ends before 'device 0'");
    if (static_cast<std::int64_t>(program_.lists.size()) != program_.devices)
      fail_at_end("the text ends before 'device ", program_.lists.size(), "' of ",
                  program_.devices);
  }

  bool versioned_ = false;
  int version_ = kTextVersion;
  std::optional<std::uint64_t> stated_hash_;
};

}  // namespace

ReadProgram read_text(std::string_view text) {
  return Reader(text).read();
}

Program parse_program(std::string_view text) {
  ReadProgram read = read_text(text);
  require(read.hash_matches,
          "the program was changed after its hash was written; remove the line 'hash ...' if that "
          "was on purpose");
  return std::move(read.program);
}

}  // namespace cleave::schedule
