#include "cleave/report/timeline_html.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/report/markup.h"
#include "cleave/report/page/page.h"
#include "cleave/report/palette.h"

namespace cleave::report {

namespace {

/// Texts, each once.
class Words {
 public:
  std::size_t index_of(std::string text) {
    const auto [place, fresh] = places_.try_emplace(text, words_.size());
    if (fresh) words_.push_back(std::move(text));
    return place->second;
  }

  std::string json() const {
    std::string out;
    for (const std::string& word : words_) {
      if (!out.empty()) out += ',';
      out += json_quoted(word);
    }
    return out;
  }

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string, std::size_t> places_;
};

std::string paints_json(int chunks) {
  std::string out;
  for (Paint paint : kPaints) {
    std::string shades;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const Colour colour = colour_of(paint, chunk, chunks);
      shades += fmt::format("{}{{\"fill\":\"{}\",\"text\":\"{}\"}}", chunk > 0 ? "," : "",
                            hex(colour), hex(text_on(colour)));
    }
    out += fmt::format("{}{{\"name\":\"{}\",\"shades\":[{}]}}", out.empty() ? "" : ",",
                       name_of(paint), shades);
  }
  return out;
}

/// `,"name":[value, …]` with the value of every span, or of every exchange.
template <class Row, class Value>
void append_column(std::string& out, std::string_view name, const std::vector<Row>& rows,
                   const Value& value) {
  fmt::format_to(std::back_inserter(out), ",\"{}\":[", name);
  bool first = true;
  for (const Row& row : rows) {
    if (!first) out += ',';
    first = false;
    fmt::format_to(std::back_inserter(out), "{:.10g}", static_cast<double>(value(row)));
  }
  out += ']';
}

void append_devices(std::string& out, const plan::Summary& summary) {
  bool first = true;
  for (const plan::DeviceSummary& device : summary.devices) {
    fmt::format_to(std::back_inserter(out),
                   "{}{{\"busy\":{:.10g},\"collective\":{:.10g},\"wait\":{:.10g},"
                   "\"peak_activations\":{:.6g}}}",
                   first ? "" : ",", device.busy, device.collective, device.wait,
                   device.peak_activations);
    first = false;
  }
}

void append_spans(std::string& out, const std::vector<plan::Span>& spans, Words& words) {
  using Span = plan::Span;
  append_column(out, "device", spans, [](const Span& s) { return s.device; });
  append_column(out, "peer", spans,
                [](const Span& s) { return s.kind == plan::SpanKind::Transfer ? s.peer : -1; });
  append_column(out, "begin", spans, [](const Span& s) { return s.begin; });
  append_column(out, "length", spans, [](const Span& s) { return s.end - s.begin; });
  append_column(out, "paint", spans, [](const Span& s) { return static_cast<int>(paint_of(s)); });
  append_column(out, "stage", spans, [](const Span& s) { return s.instruction.stage; });
  append_column(out, "microbatch", spans, [](const Span& s) { return s.instruction.microbatch; });
  append_column(out, "word", spans,
                [&](const Span& s) { return words.index_of(schedule::to_string(s.instruction)); });
}

void append_exchanges(std::string& out, const plan::Trace& trace, Words& words) {
  using plan::CollectiveSpan;
  const std::vector<CollectiveSpan>& rows = trace.exchanges;
  fmt::format_to(std::back_inserter(out), ",\"exchanges\":{{\"count\":{}", rows.size());
  append_column(out, "device", rows, [](const CollectiveSpan& e) { return e.device; });
  append_column(out, "begin", rows, [](const CollectiveSpan& e) { return e.begin; });
  append_column(out, "end", rows, [](const CollectiveSpan& e) { return e.end; });
  append_column(out, "waited", rows, [](const CollectiveSpan& e) { return e.waited; });
  append_column(out, "bytes", rows, [](const CollectiveSpan& e) { return e.bytes; });
  append_column(out, "kind", rows,
                [&](const CollectiveSpan& e) { return words.index_of(name_of(e.kind)); });
  append_column(out, "word", rows, [&](const CollectiveSpan& e) {
    return words.index_of(schedule::to_string(e.instruction));
  });
  out += '}';
}

void append_trace(std::string& out, const Timeline& timeline, Words& words) {
  const plan::Trace& trace = timeline.trace;
  fmt::format_to(std::back_inserter(out),
                 "{{\"name\":{},\"makespan\":{:.10g},\"bubble_rate\":{:.10g},"
                 "\"chunk_of_stage\":"
                 "[{}],\"devices\":[",
                 json_quoted(trace.name), timeline.summary.makespan, timeline.summary.bubble_rate,
                 fmt::join(chunk_of_stage(trace), ","));
  append_devices(out, timeline.summary);
  out += ']';
  append_spans(out, trace.spans, words);
  append_exchanges(out, trace, words);
  out += '}';
}

std::string data_json(std::span<const Timeline> timelines) {
  int chunks = 1;
  Words words;
  std::string traces;
  for (const Timeline& timeline : timelines) {
    for (int chunk : chunk_of_stage(timeline.trace)) chunks = std::max(chunks, chunk + 1);
    if (!traces.empty()) traces += ",\n";
    append_trace(traces, timeline, words);
  }
  return fmt::format(
      "{{\"unit\":{},\"end\":{:.17g},\"paints\":[{}],"
      "\n\"words\":[{}],\n\"traces\":[{}]}}",
      json_quoted(timelines.front().trace.unit), common_end(timelines), paints_json(chunks),
      words.json(), traces);
}

}  // namespace

std::string timeline_html(std::span<const Timeline> timelines, std::string_view title) {
  CLEAVE_CHECK(!timelines.empty(), "nothing to draw");
  const std::string heading = xml_escaped(title);
  const std::string data = data_json(timelines);
  const std::unordered_map<std::string_view, std::string_view> parts = {{"title", heading},
                                                                        {"style", kPageStyle},
                                                                        {"data", data},
                                                                        {"draw", kPageDraw},
                                                                        {"script", kPageScript}};

  std::string out;
  std::string_view rest = kPageFrame;
  for (auto open = rest.find("{{"); open != rest.npos; open = rest.find("{{")) {
    const auto close = rest.find("}}", open);
    out += rest.substr(0, open);
    out += parts.at(rest.substr(open + 2, close - open - 2));
    rest.remove_prefix(close + 2);
  }
  return out += rest;
}

}  // namespace cleave::report
