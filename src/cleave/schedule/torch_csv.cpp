#include "cleave/schedule/torch_csv.h"

#include <algorithm>
#include <array>

#include "cleave/base/check.h"
#include "cleave/schedule/scanner.h"
#include "cleave/schedule/text_words.h"

namespace cleave::schedule {
namespace {

std::string_view trimmed(std::string_view cell) {
  constexpr std::string_view kBlanks = " \t\r\"";
  const std::size_t from = cell.find_first_not_of(kBlanks);
  if (from == cell.npos) return cell.substr(cell.size());
  return cell.substr(from, cell.find_last_not_of(kBlanks) - from + 1);
}

/// What the lowered form has beside compute. cleave finds its own places for messages and sums.
constexpr std::array<std::string_view, 4> kMessages = {"SEND_F", "RECV_F", "SEND_B", "RECV_B"};
constexpr std::array<std::string_view, 3> kOfStages = {"UNSHARD", "RESHARD", "REDUCE_GRAD"};

constexpr std::string_view kDigits = "0123456789";

/// "2SEND_F0", "2UNSHARD": a stage, a word and, for messages, a microbatch.
bool is_exchange(std::string_view text) {
  const std::size_t word = text.find_first_not_of(kDigits);
  if (word == 0 || word == text.npos) return false;
  const std::size_t end = text.find_last_not_of(kDigits) + 1;
  const std::string_view name = text.substr(word, end - word);
  const bool numbered = end < text.size();
  return numbered ? std::ranges::count(kMessages, name) == 1
                  : std::ranges::count(kOfStages, name) == 1;
}

class CsvReader : private Scanner {
 public:
  explicit CsvReader(std::string_view text) : Scanner(text), rest_(text) {}

  Program read() {
    while (!rest_.empty()) {
      const std::size_t end = std::min(rest_.find('\n'), rest_.size());
      row(rest_.substr(0, end));
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
    }
    finish();
    return std::move(program_);
  }

 private:
  void row(std::string_view line) {
    program_.lists.emplace_back();
    for (std::size_t from = 0; from <= line.size();) {
      const std::size_t to = std::min(line.find(',', from), line.size());
      cell(trimmed(line.substr(from, to - from)));
      from = to + 1;
    }
  }

  void cell(std::string_view text) {
    if (text.empty()) return;
    if (text[0] != '(') return action(text);
    const std::size_t close = text.find(')');
    if (close == text.npos || text.substr(close + 1) != "OVERLAP_F_B")
      fail(text, quoted(text), " is no action; a pair looks like (0F1;3B0)OVERLAP_F_B");
    std::string_view pair = text.substr(1, close - 1);
    for (std::size_t from = 0; from <= pair.size();) {
      const std::size_t to = std::min(pair.find(';', from), pair.size());
      const std::string_view one = trimmed(pair.substr(from, to - from));
      if (one.empty()) fail(text, quoted(text), " has an empty action");
      action(one);
      from = to + 1;
    }
  }

  void action(std::string_view text) {
    const auto parsed = parse_instruction(text);
    const bool compute = parsed && parsed->op <= Op::Backward && parsed->segment < 0;
    if (!compute && is_exchange(text)) return exchange(text);
    if (!compute)
      fail(text, quoted(text), " is no action; one looks like 2F0: stage, F I W or B, ",
           "microbatch; or like 2SEND_F0, 2REDUCE_GRAD");
    // A stage below this one has an action in the file, too, so no index can reach its size.
    if (parsed->stage >= size()) fail(text, quoted(text), " names a stage that cannot be complete");
    if (parsed->microbatch >= size())
      fail(text, quoted(text), " names a microbatch that cannot be complete");
    place(text, parsed->stage);
    program_.microbatches = std::max(program_.microbatches, parsed->microbatch + 1);
    program_.lists.back().push_back(*parsed);
    ++actions_;
  }

  /// Left out, but it must be where its stage is.
  void exchange(std::string_view text) {
    std::int64_t stage = 0;
    for (const char digit : text.substr(0, text.find_first_not_of(kDigits)))
      stage = std::min(10 * stage + (digit - '0'), size());
    if (stage >= size()) fail(text, quoted(text), " names a stage that cannot be complete");
    place(text, static_cast<int>(stage));
  }

  void place(std::string_view text, int stage) {
    const int device = static_cast<int>(program_.lists.size()) - 1;
    if (stage >= static_cast<int>(program_.placement.size())) program_.placement.resize(stage + 1);
    auto& devices = program_.placement[stage];
    if (devices.empty()) devices.push_back(device);
    rows_ = device + 1;
    if (devices[0] != device)
      fail(text, quoted(text), " is on row ", device + 1, ", but stage ", stage, " is on row ",
           devices[0] + 1);
  }

  void finish() {
    if (program_.microbatches == 0) fail_at_end("the file has no action");
    program_.lists.resize(rows_);
    const auto absent = std::ranges::find_if(program_.placement,
                                             [](const auto& devices) { return devices.empty(); });
    if (absent != program_.placement.end())
      fail_at_end("the file has no action of stage ", absent - program_.placement.begin(),
                  ", but some of stage ", program_.placement.size() - 1);
    program_.schedule = "csv";
    program_.stages = static_cast<int>(program_.placement.size());
    program_.devices = static_cast<int>(program_.lists.size());
    if (actions_ / program_.stages < program_.microbatches)
      fail_at_end("the file has ", actions_, " actions, but ", program_.stages, " stages x ",
                  program_.microbatches, " microbatches need at least one each");
    program_.segments.assign(program_.stages, 1);
    for (int stage = 0; stage + 1 < program_.stages; ++stage)
      program_.edges.push_back({.from = stage, .to = stage + 1});
  }

  std::string_view rest_;
  Program program_;
  int actions_ = 0;
  int rows_ = 0;  // up to the last that holds a stage; those after it are blank
};

}  // namespace

std::string to_torch_csv(const Program& program) {
  require(program.replicas == 1, "the CSV form has no replicas, and the program has ",
          program.replicas);
  std::string text;
  for (const auto& list : program.lists) {
    bool first = true;
    for (const Instruction& i : list) {
      if (i.op > Op::Backward) continue;
      require(i.segment < 0, "the CSV form has whole stages only, and the program runs ",
              to_string(i));
      if (!first) text += ',';
      text += to_string(i);
      first = false;
    }
    text += '\n';
  }
  return text;
}

Program parse_torch_csv(std::string_view text) {
  return CsvReader(text).read();
}

}  // namespace cleave::schedule
