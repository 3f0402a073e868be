#include "cleave/schedule/text_words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "cleave/schedule/effects.h"

namespace cleave::schedule {
namespace {

// In the order of BufferKind.
constexpr std::array<std::string_view, 30> kBufferKinds = {"weights",
                                                           "gradients",
                                                           "optimizer",
                                                           "kept-for-input",
                                                           "kept-for-weight",
                                                           "kept-for-recompute",
                                                           "recomputed",
                                                           "input-kept",
                                                           "segment-input",
                                                           "segment-gradient",
                                                           "arriving",
                                                           "leaving",
                                                           "gathered",
                                                           "sums",
                                                           "share",
                                                           "reducing",
                                                           "collected",
                                                           "scratch",
                                                           "returned-for-input",
                                                           "returned-for-weight",
                                                           "outside",
                                                           "fetched-state",
                                                           "stored-state",
                                                           "arriving-on-host",
                                                           "leaving-on-host",
                                                           "reducing-on-host",
                                                           "gathering-on-host",
                                                           "refreshing-on-host",
                                                           "collecting-on-host",
                                                           "scratch-on-host"};
static_assert(kBufferKinds.size() == static_cast<std::size_t>(BufferKind::ScratchOnHost) + 1);

// In the order of Sharing, and of GradientKind.
constexpr std::array<std::string_view, 4> kSharings = {"nothing", "state", "gradients", "values"};
constexpr std::array<std::string_view, 4> kGradientKinds = {"full", "input-only", "weight-only",
                                                            "none"};

template <class Enum>
std::optional<Enum> find_name(std::span<const std::string_view> names, std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

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

bool operand(Cursor& cursor, Op op, Instruction& i) {
  switch (effects(op).operand) {
    case Operand::Message:
      return cursor.message(i);
    case Operand::Stage:
      return cursor.word(":") && cursor.place(i);
    case Operand::Kept:
      if (i.op != Op::Wait) {
        Cursor message = cursor;
        Instruction moved = i;
        if (message.message(moved)) {
          cursor = message;
          i = moved;
          return true;
        }
      }
      if (!cursor.word(":") || !cursor.place(i)) return false;
      return cursor.at_end() || (cursor.word("@") && cursor.number(i.microbatch));
    case Operand::Update:
      return cursor.at_end() || (cursor.word(":") && cursor.place(i));
    case Operand::Tie:
      return cursor.word(":") && cursor.number(i.edge);
    default:
      return true;
  }
}

/// The op whose word comes next, among those that are written as words.
std::optional<Op> word_of_op(Cursor& cursor) {
  for (int o = static_cast<int>(Op::Send); o < kOps; ++o)
    if (cursor.word(name_of(static_cast<Op>(o)))) return static_cast<Op>(o);
  return std::nullopt;
}

bool named(Cursor& cursor, Instruction& i) {
  const std::optional<Op> op = word_of_op(cursor);
  if (!op) return false;
  i.op = *op;
  if (i.op != Op::Wait) return operand(cursor, i.op, i);
  if (!cursor.word(":")) return false;
  const std::optional<Op> post = word_of_op(cursor);
  if (!post || !effects(*post).posts) return false;
  i.completes = *post;
  return operand(cursor, *post, i);
}

}  // namespace

std::string_view name_of(BufferKind kind) {
  return kBufferKinds.at(static_cast<std::size_t>(kind));
}

std::optional<BufferKind> buffer_kind(std::string_view name) {
  return find_name<BufferKind>(kBufferKinds, name);
}

std::string_view name_of(Sharing sharing) {
  return kSharings.at(static_cast<std::size_t>(sharing));
}

std::optional<Sharing> sharing_named(std::string_view name) {
  return find_name<Sharing>(kSharings, name);
}

std::string_view name_of(GradientKind kind) {
  return kGradientKinds.at(static_cast<std::size_t>(kind));
}

std::optional<GradientKind> gradient_kind(std::string_view name) {
  return find_name<GradientKind>(kGradientKinds, name);
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
