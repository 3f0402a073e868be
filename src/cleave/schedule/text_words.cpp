#include "cleave/schedule/text_words.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace cleave::schedule {
namespace {

// In the order of BufferKind.
constexpr std::array<std::string_view, 17> kBufferKinds = {"weights",         "gradients",
                                                           "optimizer",       "kept-for-input",
                                                           "kept-for-weight", "kept-for-recompute",
                                                           "recomputed",      "input-kept",
                                                           "segment-input",   "segment-gradient",
                                                           "arriving",        "leaving",
                                                           "gathered",        "sums",
                                                           "share",           "reducing",
                                                           "scratch"};
static_assert(kBufferKinds.size() == static_cast<std::size_t>(BufferKind::Scratch) + 1);

/// Reads a token from its front.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  bool word(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  bool number(std::int32_t& value) {
    // Not via from_chars alone: it would take a minus sign.
    if (rest_.empty() || rest_[0] < '0' || rest_[0] > '9') return false;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return true;
  }

  bool place(Instruction& i) { return number(i.stage) && (!word(".") || number(i.segment)); }

  bool message(Instruction& i) {
    if (!word(":") || !number(i.edge)) return false;
    if (word("<"))
      i.direction = Direction::Backward;
    else if (!word(">"))
      return false;
    return number(i.microbatch);
  }

  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

bool compute(Cursor& cursor, Instruction& i) {
  if (!cursor.place(i)) return false;
  for (Op op : {Op::Forward, Op::BackwardInput, Op::BackwardWeight, Op::Backward, Op::Recompute})
    if (cursor.word(name_of(op))) {
      i.op = op;
      return cursor.number(i.microbatch);
    }
  return false;
}

bool wait(Cursor& cursor, Instruction& i) {
  if (!cursor.word(":")) return false;
  for (Op op : {Op::Send, Op::Receive})
    if (cursor.word(name_of(op))) {
      i.completes = op;
      return cursor.message(i);
    }
  return false;
}

bool named(Cursor& cursor, Instruction& i) {
  for (int o = static_cast<int>(Op::Send); o <= static_cast<int>(Op::Step); ++o) {
    i.op = static_cast<Op>(o);
    if (!cursor.word(name_of(i.op))) continue;
    switch (i.op) {
      case Op::Send:
      case Op::Receive:
        return cursor.message(i);
      case Op::Wait:
        return wait(cursor, i);
      case Op::Gather:
      case Op::Free:
      case Op::Reduce:
        return cursor.word(":") && cursor.place(i);
      case Op::Tie:
        return cursor.word(":") && cursor.number(i.edge);
      default:
        return true;
    }
  }
  return false;
}

}  // namespace

std::string_view name_of(BufferKind kind) {
  return kBufferKinds.at(static_cast<std::size_t>(kind));
}

std::optional<BufferKind> buffer_kind(std::string_view name) {
  const auto* found = std::ranges::find(kBufferKinds, name);
  if (found == kBufferKinds.end()) return std::nullopt;
  return static_cast<BufferKind>(found - kBufferKinds.begin());
}

std::optional<Instruction> parse_instruction(std::string_view token) {
  Instruction i;
  Cursor cursor(token);
  const bool digit = !token.empty() && token[0] >= '0' && token[0] <= '9';
  const bool ok = digit ? compute(cursor, i) : named(cursor, i);
  if (!ok || !cursor.at_end()) return std::nullopt;
  return i;
}

}  // namespace cleave::schedule
