#include "cleave/report/chrome_trace.h"

#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "cleave/report/markup.h"
#include "cleave/report/palette.h"

namespace cleave::report {

namespace {

class Events {
 public:
  template <class... Values>
  void add(fmt::format_string<Values...> text, Values&&... values) {
    out_ += first_ ? "\n{" : ",\n{";
    first_ = false;
    fmt::format_to(std::back_inserter(out_), text, std::forward<Values>(values)...);
    out_ += '}';
  }

  std::string finish() && { return std::move(out_) + "\n]}\n"; }

 private:
  std::string out_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  bool first_ = true;
};

void add_names(Events& events, const plan::Trace& trace, std::size_t process) {
  events.add(R"("ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":{}}})", process,
             json_quoted(trace.name));
  events.add(
      R"("ph":"M","name":"process_sort_index","pid":{0},"tid":0,"args":{{"sort_index":{0}}})",
      process);
  for (int device = 0; device < trace.devices; ++device) {
    events.add(R"("ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"device {}"}})",
               process, device, device);
    events.add(
        R"("ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}})",
        process, device, device);
  }
}

void add_spans(Events& events, const plan::Trace& trace, std::size_t process, std::size_t& id) {
  const double microseconds = trace.unit == "s" ? 1e6 : 1e3;
  for (const plan::Span& span : trace.spans) {
    const std::string text = schedule::to_string(span.instruction);
    const double begin = span.begin * microseconds;
    const double end = span.end * microseconds;
    if (span.kind == plan::SpanKind::Transfer) {
      events.add(R"("ph":"b","cat":"message","id":{},"name":"{}","pid":{},"tid":{},"ts":{:.12g},)"
                 R"("args":{{"from":{},"to":{}}})",
                 ++id, text, process, span.device, begin, span.device, span.peer);
      events.add(R"("ph":"e","cat":"message","id":{},"name":"{}","pid":{},"tid":{},"ts":{:.12g})",
                 id, text, process, span.device, end);
      continue;
    }
    const bool wait = span.kind == plan::SpanKind::Wait;
    events.add(R"("ph":"X","cat":"{}","name":"{}{}","pid":{},"tid":{},"ts":{:.12g},"dur":{:.12g},)"
               R"("args":{{"stage":{},"microbatch":{}}})",
               name_of(paint_of(span)), wait ? "wait " : "", text, process, span.device, begin,
               end - begin, span.instruction.stage, span.instruction.microbatch);
  }
}

/// Several may be on their way at once, so they are not slices of the device's own lane.
void add_exchanges(Events& events, const plan::Trace& trace, std::size_t process, std::size_t& id) {
  const double microseconds = trace.unit == "s" ? 1e6 : 1e3;
  for (const plan::CollectiveSpan& exchange : trace.exchanges) {
    const auto add = [&](char phase, double time, const std::string& more) {
      events.add(
          R"("ph":"{}","cat":"collective","id":{},"name":"{}","pid":{},"tid":{},"ts":{:.12g}{})",
          phase, id, name_of(exchange.kind), process, exchange.device, time * microseconds, more);
    };
    ++id;
    add('b', exchange.begin,
        fmt::format(R"(,"args":{{"device":{},"instruction":"{}","bytes":{},"waited_us":{:.3f},)"
                    R"("hidden_us":{:.3f}}})",
                    exchange.device, schedule::to_string(exchange.instruction), exchange.bytes,
                    exchange.waited * microseconds, exchange.hidden() * microseconds));
    add('e', exchange.end, "");
  }
}

}  // namespace

std::string chrome_trace(std::span<const Timeline> timelines) {
  Events events;
  std::size_t id = 0;
  for (std::size_t i = 0; i < timelines.size(); ++i) {
    add_names(events, timelines[i].trace, i);
    add_spans(events, timelines[i].trace, i, id);
    add_exchanges(events, timelines[i].trace, i, id);
  }
  return std::move(events).finish();
}

}  // namespace cleave::report
