#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>

#include "cleave/base/check.h"
#include "cleave/schedule/scanner.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/text_words.h"

namespace cleave::schedule {
namespace {

/// Reads line by line and word by word. Everything that is kept was written out in the text, so
/// memory is bounded by its size; numbers that only claim a size are checked before they are used.
class Reader : private Scanner {
 public:
  explicit Reader(std::string_view text) : Scanner(text) {}

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
    if (!versioned_) fail_at_end("the text ends before its first line, 'cleave-program 1'");
    finish();
    const bool matches = !stated_hash_ || *stated_hash_ == content_hash(program_);
    return {std::move(program_), matches};
  }

 private:
  void version_line() {
    if (words_[0] != "cleave-program") fail(words_[0], "a program begins with 'cleave-program 1'");
    if (number(1, 1, 1'000'000) != kTextVersion)
      fail(words_[1], "this is version ", words_[1], " of the text form; known is ", kTextVersion);
    no_more_than(2);
    versioned_ = true;
  }

  void statement() {
    const std::string_view word = words_[0];
    if (word == "device") return device();
    if (word == "buffer") return buffer();
    if (word == "hash") return hash();
    if (!program_.lists.empty()) fail(word, quoted(word), " belongs before the first device");
    if (word == "schedule") return name();
    if (word == "stages") return header_number(program_.stages);
    if (word == "devices") return header_number(program_.devices);
    if (word == "replicas") return header_number(program_.replicas);
    if (word == "microbatches") return header_number(program_.microbatches);
    if (program_.stages == 0) fail(word, "say how many stages there are before ", quoted(word));
    if (word == "segments") return segments();
    if (word == "place") return place();
    if (word == "edge") return edge();
    if (word == "edges") return edges();
    if (word == "tie") return tie();
    if (word == "budget") return budget();
    fail(word, "unknown word ", quoted(word));
  }

  void header_number(int& value) {
    std::string_view& given = given_[words_[0][0]];
    if (!given.empty()) fail(words_[0], quoted(words_[0]), " are given twice");
    value = count(1);
    no_more_than(2);
    given = words_[1];
  }

  void name() {
    if (words_.size() < 2) return;
    const char* end = words_.back().data() + words_.back().size();
    program_.schedule.assign(words_[1].data(), end);
    if (std::ranges::any_of(program_.schedule, [](unsigned char c) { return c < ' '; }))
      fail(words_[1], "a name has no control characters");
  }

  void segments() {
    if (!program_.segments.empty()) fail(words_[0], "segments are given twice");
    for (std::size_t k = 1; k < words_.size(); ++k) program_.segments.push_back(count(k));
    if (static_cast<std::int64_t>(program_.segments.size()) != program_.stages)
      fail(words_[0], "segments of ", program_.segments.size(), " stages are given, but there are ",
           program_.stages);
  }

  void place() {
    const int stage = below(1, program_.stages);
    if (stage != static_cast<int>(program_.placement.size()))
      fail(words_[1], "the next stage to place is ", program_.placement.size());
    auto& devices = program_.placement.emplace_back();
    for (std::size_t k = 2; k < words_.size(); ++k)
      devices.push_back(below(k, std::numeric_limits<std::int32_t>::max()));
    place_words_.push_back(words_[0]);
  }

  void edge() {
    Edge edge{.from = below(1, program_.stages), .to = below(2, program_.stages)};
    if (words_.back() == "forward-only") {
      edge.backward = false;
      words_.pop_back();
    }
    if (words_.size() > 3) edge.forward_bytes = bytes(3);
    if (words_.size() > 4) edge.backward_bytes = bytes(4);
    no_more_than(5);
    program_.edges.push_back(edge);
  }

  void edges() {
    if (words_.size() != 2 || words_[1] != "chain") fail(words_[0], "did you mean 'edges chain'?");
    if (!program_.edges.empty()) fail(words_[0], "'edges chain' comes once, before other edges");
    if (program_.stages > size()) fail_size();
    for (int stage = 0; stage + 1 < program_.stages; ++stage)
      program_.edges.push_back({.from = stage, .to = stage + 1});
  }

  void tie() {
    Tie tie{.first = below(1, program_.stages), .second = below(2, program_.stages)};
    if (words_.size() > 3) tie.bytes = bytes(3);
    no_more_than(4);
    program_.ties.push_back(tie);
  }

  void budget() {
    if (below(1, std::numeric_limits<std::int32_t>::max()) !=
        static_cast<std::int64_t>(program_.budgets.size()))
      fail(words_[1], "the next budget is that of device ", program_.budgets.size());
    program_.budgets.push_back(bytes(2));
    no_more_than(3);
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
      if (key == "backward")
        b.direction = Direction::Backward;
      else if (key == "offset")
        b.offset = bytes(++k);
      else if (key == "stage")
        b.stage = below(++k, kMost);
      else if (key == "segment")
        b.segment = below(++k, kMost);
      else if (key == "edge")
        b.edge = below(++k, kMost);
      else if (key == "microbatch")
        b.microbatch = below(++k, kMost);
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

  [[noreturn]] void fail_size() const {
    fail(given_.at('s'), "the text is too short for ", program_.stages, " stages x ",
         program_.replicas, " replicas x ", program_.microbatches, " microbatches");
  }

  /// Every (stage, replica, microbatch) has at least one instruction, of two characters or more; a
  /// header that promises more than that is refused before anything is made for it.
  void check_header() {
    if (program_.stages == 0) fail(words_[0], "the header does not say how many stages there are");
    if (program_.microbatches == 0)
      fail(words_[0], "the header does not say how many microbatches there are");
    std::int64_t room = size();
    for (int factor : {program_.stages, program_.replicas, program_.microbatches}) room /= factor;
    if (room == 0) fail_size();
    if (program_.segments.empty()) program_.segments.assign(program_.stages, 1);
    if (program_.devices == 0) program_.devices = program_.stages * program_.replicas;
    if (program_.placement.empty()) place_by_default();
    check_placement();
    if (!program_.budgets.empty() &&
        static_cast<std::int64_t>(program_.budgets.size()) != program_.devices)
      fail(words_[0], program_.budgets.size(), " devices have a budget, but there are ",
           program_.devices, "; give all of them one, or none");
  }

  void place_by_default() {
    const int stages = program_.stages;
    if (program_.devices != stages * program_.replicas)
      fail(given_.at('d'), "say where the stages are: without 'place', stage s of replica r is on ",
           "device r * stages + s, and that needs ", stages * program_.replicas, " devices");
    for (int stage = 0; stage < stages; ++stage) {
      auto& devices = program_.placement.emplace_back();
      for (int replica = 0; replica < program_.replicas; ++replica)
        devices.push_back(replica * stages + stage);
    }
  }

  void check_placement() {
    if (static_cast<std::int64_t>(program_.placement.size()) != program_.stages)
      fail(words_[0], program_.placement.size(), " stages are placed, but there are ",
           program_.stages);
    for (std::size_t stage = 0; stage < place_words_.size(); ++stage) {
      const auto& devices = program_.placement[stage];
      if (static_cast<std::int64_t>(devices.size()) != program_.replicas)
        fail(place_words_[stage], "stage ", stage, " is placed on ", devices.size(),
             " devices; with ", program_.replicas, " replicas it needs as many");
      for (int device : devices)
        if (device >= program_.devices)
          fail(place_words_[stage], "stage ", stage, " is placed on device ", device,
               ", but there are ", program_.devices);
    }
  }

  void finish() {
    if (program_.lists.empty()) fail_at_end("the text ends before 'device 0'");
    if (static_cast<std::int64_t>(program_.lists.size()) != program_.devices)
      fail_at_end("the text ends before 'device ", program_.lists.size(), "' of ",
                  program_.devices);
  }

  std::map<char, std::string_view> given_;  ///< initial of a header word -> its number
  std::vector<std::string_view> place_words_;
  bool versioned_ = false;
  std::optional<std::uint64_t> stated_hash_;
  Program program_;
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
