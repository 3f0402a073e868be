#include "cleave/report/timeline.h"

#include <string>
#include <string_view>
#include <vector>

#include "report/hand_made.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cleave/report/chrome_trace.h"
#include "cleave/report/text_table.h"
#include "cleave/report/timeline_html.h"
#include "cleave/report/timeline_svg.h"
#include "cleave/report/timeline_text.h"

namespace cleave::report {
namespace {

using testing::compute;
using testing::two_devices;

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t times = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++times;
  return times;
}

/// Every tag closed in order, no stray `<`, `&` only in references.
bool is_well_formed(std::string_view xml) {
  std::vector<std::string> open;
  while (!xml.empty()) {
    const auto less = xml.find('<');
    const std::string_view text = xml.substr(0, less);
    for (auto at = text.find('&'); at != text.npos; at = text.find('&', at + 1)) {
      if (text.find(';', at) > at + 6) return false;
    }
    if (less == xml.npos) break;
    const auto greater = xml.find('>', less);
    if (greater == xml.npos) return false;
    const std::string_view tag = xml.substr(less + 1, greater - less - 1);
    if (tag.find('<') != tag.npos || count(tag, "\"") % 2 != 0) return false;
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (!tag.ends_with("/")) {
      open.emplace_back(tag.substr(0, tag.find(' ')));
    }
    xml.remove_prefix(greater + 1);
  }
  return open.empty();
}

TEST(Timeline, NumbersChunksWithinTheirDevice) {
  plan::Trace trace{.devices = 2};
  using enum schedule::Op;
  trace.spans = {compute(0, Forward, 0, 0, 1, 3), compute(0, Forward, 0, 1, 2, 0),
                 compute(1, Forward, 0, 0, 1, 1), compute(1, Forward, 0, 1, 2, 2)};

  EXPECT_EQ(chunk_of_stage(trace), (std::vector{0, 0, 1, 1}));
}

TEST(Timeline, TicksAreRoundAndFew) {
  EXPECT_DOUBLE_EQ(tick_distance(10, 10), 1);
  EXPECT_DOUBLE_EQ(tick_distance(96, 10), 10);
  EXPECT_DOUBLE_EQ(tick_distance(0.0043, 10), 0.0005);
}

TEST(TimelineSvg, DrawsOneBoxPerSpanThatOccupiesADevice) {
  const std::vector timelines = {two_devices("one"), two_devices("two")};

  const std::string svg = timeline_svg(timelines);

  EXPECT_TRUE(is_well_formed(svg));
  // Per timeline 6 boxes of compute and 1 wait; 3 rectangles per row; 4 in the legend.
  EXPECT_EQ(count(svg, "<rect"), 2 * (7 + 2 * 3) + 4);
  EXPECT_EQ(count(svg, "class=\"number\""), 2 * 6);
  EXPECT_EQ(count(svg, "makespan 7 · bubble 57.1 %"), 2 + 2);  // in the panel and in <title>
}

TEST(TimelineSvg, EscapesNames) {
  const std::vector timelines = {two_devices("<b>\"&\x01")};

  const std::string svg = timeline_svg(timelines);

  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_EQ(svg.find("<b>"), svg.npos);
}

TEST(TimelineSvg, SurvivesATraceWithoutTime) {
  Timeline timeline = two_devices("empty");
  timeline.trace.spans.clear();
  timeline.summary.makespan = 0;

  EXPECT_TRUE(is_well_formed(timeline_svg({&timeline, 1})));
}

nlohmann::json data_of(const std::string& html) {
  const std::string open = "type=\"application/json\">";
  const auto begin = html.find(open) + open.size();
  return nlohmann::json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

TEST(TimelineHtml, CarriesEverySpan) {
  const std::vector timelines = {two_devices("one"), two_devices("two")};

  const nlohmann::json data = data_of(timeline_html(timelines, "both"));

  ASSERT_EQ(data["traces"].size(), 2);
  const nlohmann::json& trace = data["traces"][1];
  EXPECT_EQ(trace["name"], "two");
  EXPECT_EQ(trace["begin"].size(), 8);
  EXPECT_EQ(trace["length"], (nlohmann::json{1, 1, 2, 1, 1, 1, 1, 1}));
  EXPECT_EQ(data["words"][trace["word"][2].get<int>()], "WAIT:RECV:0>0");
  EXPECT_EQ(trace["peer"], (nlohmann::json{-1, 1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(data["end"], 7);
}

/// A sum of 768 bytes inside 1W0, on its way from 4 to 4.5, of which device 1 waited 0.125.
Timeline with_a_sum() {
  Timeline timeline = two_devices("inside");
  timeline.trace.exchanges = {{.device = 1,
                               .kind = CollectiveKind::ReduceScatter,
                               .begin = 4,
                               .end = 4.5,
                               .waited = 0.125,
                               .bytes = 768,
                               .instruction = timeline.trace.spans[5].instruction}};
  return timeline;
}

TEST(TimelineHtml, CarriesEveryExchange) {
  const std::vector timelines = {with_a_sum()};

  const nlohmann::json data = data_of(timeline_html(timelines, "sum"));

  const nlohmann::json& exchanges = data["traces"][0]["exchanges"];
  EXPECT_EQ(exchanges["count"], 1);
  EXPECT_EQ(exchanges["device"], nlohmann::json{1});
  EXPECT_EQ(exchanges["end"], nlohmann::json{4.5});
  EXPECT_EQ(exchanges["waited"], nlohmann::json{0.125});
  EXPECT_EQ(exchanges["bytes"], nlohmann::json{768});
  EXPECT_EQ(data["words"][exchanges["kind"][0].get<int>()], "reduce_scatter");
  EXPECT_EQ(data["words"][exchanges["word"][0].get<int>()], "1W0");
}

TEST(ChromeTrace, SaysHowMuchOfAnExchangeWasHidden) {
  const std::vector timelines = {with_a_sum()};

  const auto events = nlohmann::json::parse(chrome_trace(timelines))["traceEvents"];

  const auto found = std::ranges::find_if(
      events, [](const auto& event) { return event["name"] == "reduce_scatter"; });
  ASSERT_NE(found, events.end());
  EXPECT_EQ((*found)["cat"], "collective");
  EXPECT_EQ((*found)["tid"], 1);
  EXPECT_EQ((*found)["ts"], 4000);
  const nlohmann::json args = {{"device", 1},
                               {"instruction", "1W0"},
                               {"bytes", 768},
                               {"waited_us", 125.0},
                               {"hidden_us", 375.0}};
  EXPECT_EQ((*found)["args"], args);
}

TEST(TimelineHtml, StandsAloneAndEscapesNames) {
  const std::string evil = "</script><img src=x onerror=alert(1)>{{data}}";
  const std::vector timelines = {two_devices(evil)};

  const std::string html = timeline_html(timelines, evil);

  EXPECT_EQ(html.find("<img"), html.npos);
  EXPECT_EQ(count(html, "</script>"), 2);
  EXPECT_EQ(count(html, "http"), 0);
  EXPECT_EQ(data_of(html)["traces"][0]["name"], evil);
}

TEST(ChromeTrace, HasAProcessPerTimelineAndAThreadPerDevice) {
  const std::vector timelines = {two_devices("one"), two_devices("a \"quoted\" name")};

  const auto events = nlohmann::json::parse(chrome_trace(timelines))["traceEvents"];

  int complete = 0;
  int messages = 0;
  std::vector<std::string> names;
  for (const auto& event : events) {
    if (event["ph"] == "X") ++complete;
    if (event["ph"] == "b" || event["ph"] == "e") ++messages;
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
    if (event["name"] == "1W0" && event["pid"] == 0) {
      EXPECT_EQ(event["tid"], 1);
      EXPECT_EQ(event["ts"], 4000);
      EXPECT_EQ(event["dur"], 1000);
    }
  }
  EXPECT_EQ(complete, 2 * 7);
  EXPECT_EQ(messages, 2 * 2);
  EXPECT_EQ(names, (std::vector<std::string>{"one", "a \"quoted\" name"}));
}

TEST(TimelineText, DrawsTheTableInTheComment) {
  EXPECT_EQ(timeline_text(two_devices("two devices"), {.columns = 60}),
            "two devices: makespan 7 · bubble 57.1 %\n"
            "0  F0 ............I0 W0 \n"
            "1  ......F0 I0 W0 ......\n"
            "   F forward   I input gradient   W weight gradient   . idle\n");
}

TEST(TimelineText, FitsTheTerminal) {
  Timeline timeline = two_devices("narrow");
  for (plan::Span& span : timeline.trace.spans) {
    span.begin *= 1.37;
    span.end *= 1.37;
  }
  timeline.summary.makespan *= 1.37;

  const std::string text = timeline_text(timeline, {.columns = 13});

  EXPECT_NE(text.find("0  F....IW\n1  ..FIW..\n"), text.npos) << text;
}

TEST(TimelineText, ColoursOnlyWhenAsked) {
  const Timeline timeline = two_devices("coloured");

  const std::string colour = timeline_text(timeline, {.ink = Ink::TrueColour});

  EXPECT_NE(colour.find("0  \x1b[48;2;53;115;185;38;5;231m0  \x1b[0m"), colour.npos);
  EXPECT_EQ(timeline_text(timeline, {.ink = Ink::Plain}).find('\x1b'), std::string::npos);
}

TEST(TextTable, AlignsNumbersRight) {
  EXPECT_EQ(text_table({{"device", "busy"}, {"0", "12.5"}, {"10", "3"}}),
            "device  busy\n0       12.5\n10         3\n");
}

}  // namespace
}  // namespace cleave::report
