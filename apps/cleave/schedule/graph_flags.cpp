#include "schedule/graph_flags.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>

#include "files.h"
#include "words.h"

#include "cleave/base/check.h"

namespace cleave::app {
namespace {

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && value >= 0;
  return whole ? std::optional(value) : std::nullopt;
}

/// "3>4" -> 3 and 4.
std::optional<std::pair<int, int>> pair_of(std::string_view text, char between) {
  const auto at = text.find(between);
  if (at == text.npos) return std::nullopt;
  const auto first = whole_number(text.substr(0, at));
  const auto second = whole_number(text.substr(at + 1));
  if (!first || !second) return std::nullopt;
  return std::pair(*first, *second);
}

/// Comments become blanks, and whatever may separate edges a comma.
std::string with_commas(std::string text) {
  bool comment = false;
  for (char& c : text) {
    comment = c == '#' || (comment && c != '\n');
    if (comment || c == '\n' || c == '\t' || c == '\r' || c == ' ') c = ',';
  }
  return text;
}

}  // namespace

std::vector<schedule::Edge> parse_graph(const std::string& text) {
  std::vector<schedule::Edge> edges;
  if (text.empty()) return edges;
  const bool is_file = text.find('>') == text.npos || std::filesystem::exists(text);
  const std::string written = with_commas(is_file ? read_file(text) : text);
  for (const std::string_view edge : split(written, ',')) {
    if (edge.empty()) continue;
    const auto ends = pair_of(edge, '>');
    require(ends.has_value(), "--graph ", is_file ? text + ": " : "", "'", edge,
            "' is no edge; write from>to, as in 0>1,1>3,2>3");
    edges.push_back({.from = ends->first, .to = ends->second});
  }
  require(!edges.empty(), "--graph ", text, " has no edge; write from>to, as in 0>1,1>3,2>3");
  return edges;
}

int stages_of(const std::vector<schedule::Edge>& graph, std::optional<int> given) {
  std::set<int> named;
  for (const schedule::Edge& edge : graph) named.insert({edge.from, edge.to});
  const std::int64_t stages = given ? *given : std::int64_t{*named.rbegin()} + 1;
  int next = 0;
  for (const int stage : named) next += stage == next ? 1 : 0;
  require(next >= stages, "--graph: no edge names stage ", next, ", and ",
          given ? "--stages gives " : "the edges go up to ", given ? stages : stages - 1,
          "; number the stages from 0 on without a gap, and give each an edge");
  return static_cast<int>(stages);
}

std::vector<int> parse_frozen(const std::string& text) {
  std::vector<int> stages;
  if (text.empty()) return stages;
  for (const std::string_view stage : split(text, ',')) {
    const auto number = whole_number(stage);
    require(number.has_value(), "--frozen: '", stage, "' is no stage; write numbers, as in 0,1");
    stages.push_back(*number);
  }
  return stages;
}

std::vector<schedule::Absence> parse_absent(const std::string& text) {
  std::vector<schedule::Absence> absent;
  if (text.empty()) return absent;
  for (const std::string_view one : split(text, ',')) {
    const auto both = pair_of(one, ':');
    require(both.has_value(), "--absent: '", one,
            "' is no stage:microbatch; write numbers, as in 0:1,0:3");
    absent.push_back({both->first, both->second});
  }
  std::ranges::sort(absent);
  absent.erase(std::unique(absent.begin(), absent.end()), absent.end());
  return absent;
}

std::vector<int> parse_replicas(const std::string& text, int stages) {
  if (text.empty()) return {};
  std::vector<int> replicas(static_cast<std::size_t>(stages), 1);
  for (const std::string_view one : split(text, ',')) {
    const auto both = pair_of(one, ':');
    require(both.has_value() && both->second >= 1, "--replicas: '", one,
            "' is no stage:replicas; write numbers, as in 0:4,1:2");
    require(both->first < stages, "--replicas: there is no stage ", both->first, "; there are ",
            stages, ", from 0 on");
    replicas[static_cast<std::size_t>(both->first)] = both->second;
  }
  return replicas;
}

}  // namespace cleave::app
