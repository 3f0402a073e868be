#include <algorithm>
#include <span>
#include <string>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"
#include "cleave/schedule/effects.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/text_words.h"

namespace cleave::schedule {
namespace {

constexpr std::size_t kLineWidth = 98;

/// Lines of words.
class TextWriter {
 public:
  template <class... Words>
  void line(const Words&... words) {
    (word(words), ...);
    end();
  }

  void word(std::string_view text) {
    if (!begin_) text_ += ' ';
    text_ += text;
    begin_ = false;
  }
  void word(std::int64_t number) { word(std::string_view(std::to_string(number))); }

  void key(std::string_view name, std::int64_t value) {
    if (value == -1) return;
    word(name);
    word(value);
  }

  void end() {
    text_ += '\n';
    begin_ = true;
  }

  void list(const std::vector<Instruction>& instructions) {
    std::size_t width = 0;
    for (const Instruction& i : instructions) {
      const std::string token = to_string(i);
      if (width > 0 && width + 1 + token.size() > kLineWidth) {
        text_ += '\n';
        width = 0;
      }
      text_ += width == 0 ? "  " : " ";
      text_ += token;
      width += 1 + token.size();
    }
    if (width > 0) text_ += '\n';
  }

  std::string take() { return std::move(text_); }

 private:
  bool begin_ = true;
  std::string text_;
};

template <class Numbers>
void write_row(TextWriter& out, std::string_view word, const Numbers& numbers) {
  out.word(word);
  for (const auto number : numbers) out.word(number);
  out.end();
}

/// A word for each stage; nothing where all have the usual one.
template <class Values>
void write_per_stage(TextWriter& out, std::string_view word, const Values& values) {
  if (values.empty()) return;
  out.word(word);
  for (const auto value : values) out.word(name_of(value));
  out.end();
}

void write_sizes(TextWriter& out, const Program& program) {
  if (!program.schedule.empty()) out.line("schedule", program.schedule);
  out.line("stages", program.stages);
  out.line("devices", program.devices);
  out.line("replicas", program.replicas);
  out.line("microbatches", program.microbatches);
  for (std::size_t stage = 0; stage < program.placement.size(); ++stage) {
    out.word("place");
    out.word(static_cast<std::int64_t>(stage));
    for (const int device : program.placement[stage]) out.word(device);
    out.end();
  }
  write_row(out, "segments", program.segments);
}

void write_edge(TextWriter& out, const Edge& edge) {
  out.word("edge");
  for (const std::int64_t number :
       {std::int64_t{edge.from}, std::int64_t{edge.to}, edge.forward_bytes, edge.backward_bytes})
    out.word(number);
  if (!edge.backward) out.word("forward-only");
  out.end();
}

void write_absence(TextWriter& out, const Absence& absence) {
  out.word("absent");
  for (const int number : {absence.stage, absence.microbatch}) out.word(number);
  out.key("replica", absence.replica);
  out.end();
}

void write_read(TextWriter& out, const SegmentRead& read) {
  out.word("reads");
  for (const int number : {read.stage, read.segment, read.from}) out.word(number);
  out.word(effects(read.until).word);
  out.key("edge", read.edge);
  out.end();
}

void write_budgets(TextWriter& out, std::string_view word,
                   const std::vector<std::int64_t>& budgets) {
  for (std::size_t device = 0; device < budgets.size(); ++device)
    out.line(word, static_cast<std::int64_t>(device), budgets[device]);
}

void write_header(TextWriter& out, const Program& program, int version) {
  out.line("cleave-program", version);
  write_sizes(out, program);
  for (const Edge& edge : program.edges) write_edge(out, edge);
  write_per_stage(out, "sharing", program.sharing);
  write_per_stage(out, "gradients", program.gradients);
  for (const Absence& absence : program.absent) write_absence(out, absence);
  for (const SegmentRead& read : program.reads) write_read(out, read);
  for (const int stage : program.collecting) out.line("collects", stage);
  if (!program.through_host.empty()) write_row(out, "through-host", program.through_host);
  for (const Tie& tie : program.ties) out.line("tie", tie.first, tie.second, tie.bytes);
  write_budgets(out, "budget", program.budgets);
  write_budgets(out, "outside-budget", program.outside_budgets);
}

void write_buffer(TextWriter& out, const Buffer& buffer) {
  out.word("buffer");
  out.word(name_of(buffer.kind));
  out.word(buffer.device);
  out.word(buffer.bytes);
  out.word(buffer.first);
  out.word(buffer.last);
  out.key("stage", buffer.stage);
  out.key("segment", buffer.segment);
  out.key("edge", buffer.edge);
  if (buffer.direction == Direction::Backward) out.word("backward");
  out.key("microbatch", buffer.microbatch);
  out.key("offset", buffer.offset);
  out.end();
}

std::string body(const Program& program, int version) {
  const std::string& name = program.schedule;
  const auto breaks = [](unsigned char c) { return c < ' ' || c == '#'; };
  require(std::ranges::none_of(name, breaks) && !name.starts_with(' ') && !name.ends_with(' '),
          "the schedule name '", name, "' cannot be written; leave out #, line breaks and blanks ",
          "at its ends");
  TextWriter out;
  write_header(out, program, version);
  for (std::size_t device = 0; device < program.lists.size(); ++device) {
    out.line("device", static_cast<std::int64_t>(device));
    out.list(program.lists[device]);
  }
  for (const Buffer& buffer : program.buffers) write_buffer(out, buffer);
  return out.take();
}

std::uint64_t hash_of_body(const std::string& text) {
  return hash_of(std::as_bytes(std::span(text)));
}

}  // namespace

std::string to_text(const Program& program) {
  std::string text = body(program, kTextVersion);
  const std::string hash = to_hex(hash_of_body(text));
  return text + "hash " + hash + '\n';
}

std::uint64_t content_hash(const Program& program, int version) {
  return hash_of_body(body(program, version));
}

std::uint64_t content_hash(const Program& program) {
  return content_hash(program, kTextVersion);
}

}  // namespace cleave::schedule
