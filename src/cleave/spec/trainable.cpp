#include "cleave/spec/trainable.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"

namespace cleave {
namespace {

/// Whether all of `text` is what `pattern` says, * being any characters.
bool is_like(std::string_view text, std::string_view pattern) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    for (std::size_t skipped = 0; skipped <= text.size(); ++skipped)
      if (is_like(text.substr(skipped), pattern.substr(1))) return true;
    return false;
  }
  return !text.empty() && text[0] == pattern[0] && is_like(text.substr(1), pattern.substr(1));
}

}  // namespace

bool pattern_names(std::string_view pattern, std::string_view name) {
  for (std::size_t begin = 0; begin <= name.size(); ++begin) {
    if (begin > 0 && name[begin - 1] != '.') continue;
    for (std::size_t end = begin; end <= name.size(); ++end) {
      if (end < name.size() && name[end] != '.') continue;
      if (is_like(name.substr(begin, end - begin), pattern)) return true;
    }
  }
  return false;
}

namespace {

/// Visits every parameter with its segment.
template <class Segments, class Visit>
void for_each_parameter(Segments&& segments, const Visit& visit) {
  for (auto& segment : segments) {
    for (auto& layer : segment.layers) {
      for (auto& parameter : layer.parameters) visit(segment, parameter);
    }
  }
}

/// Whether a pattern names the tensor `name` of a segment: itself, or the module that it is in.
bool takes(std::string_view pattern, const SegmentSpec& segment, std::string_view name) {
  return (!segment.module.empty() && pattern == segment.module) || pattern_names(pattern, name);
}

/// The names that a pattern may go by: a tied weight has its own beside its owner's.
std::vector<std::string> names_of(const ParameterSpec& parameter) {
  std::vector<std::string> all;
  for (const Piece& piece : parameter.pieces) all.push_back(piece.name);
  if (!parameter.tied_to.empty()) all.push_back(parameter.name);
  return all;
}

void check_names_something(std::span<const SegmentSpec> segments, const std::string& pattern) {
  std::set<std::string> known;
  bool found = false;
  for_each_parameter(segments, [&](const SegmentSpec& segment, const ParameterSpec& parameter) {
    if (parameter.idle || found) return;
    if (!segment.module.empty()) known.insert(segment.module);
    for (const std::string& name : names_of(parameter)) {
      found = found || takes(pattern, segment, name);
      known.insert(name.substr(0, name.rfind('.')));
      known.insert(name);
    }
  });
  if (found) return;  // a planner asks thousands of times, and likenesses take long to find
  const std::vector<std::string_view> words(known.begin(), known.end());
  throw UserError(detail::concat("model.train names \"", pattern,
                                 "\", and no parameter is called so",
                                 did_you_mean(pattern, words)));
}

/// Whether the patterns name the parameter: all of its tensors, or none.
bool is_named(const SegmentSpec& segment, const ParameterSpec& parameter,
              std::span<const std::string> patterns) {
  const std::vector<std::string> all = names_of(parameter);
  const auto named = [&](const std::string& name) {
    return std::ranges::any_of(patterns,
                               [&](const auto& pattern) { return takes(pattern, segment, name); });
  };
  const bool some = std::ranges::any_of(all, named);
  if (!some || !parameter.tied_to.empty()) return some;
  const auto left_out = std::ranges::find_if_not(all, named);
  require(left_out == all.end(), "model.train names ", *std::ranges::find_if(all, named),
          " but not ", left_out == all.end() ? "" : *left_out,
          ", which is computed together with it; name both or neither");
  return some;
}

}  // namespace

void train_only(std::span<SegmentSpec> segments, std::span<const std::string> patterns) {
  if (patterns.empty()) return;
  for (const std::string& pattern : patterns) check_names_something(segments, pattern);
  std::set<std::string> trained;
  for_each_parameter(segments, [&](const SegmentSpec& segment, const ParameterSpec& parameter) {
    if (!is_named(segment, parameter, patterns)) return;
    trained.insert(parameter.tied_to.empty() ? parameter.name : parameter.tied_to);
  });
  for_each_parameter(segments, [&](const SegmentSpec&, ParameterSpec& parameter) {
    parameter.trainable =
        !parameter.idle &&
        trained.contains(parameter.tied_to.empty() ? parameter.name : parameter.tied_to);
  });
  for (SegmentSpec& segment : segments)
    for (LayerSpec& layer : segment.layers) leave_out_weight_pass(layer);
}

void freeze(std::span<SegmentSpec> segments) {
  for_each_parameter(
      segments, [](const SegmentSpec&, ParameterSpec& parameter) { parameter.trainable = false; });
  for (SegmentSpec& segment : segments)
    for (LayerSpec& layer : segment.layers) leave_out_weight_pass(layer);
}

std::vector<bool> wants_gradients(const Graph& graph) {
  std::vector<bool> wants;
  for (const SegmentSpec& segment : graph.segments) wants.push_back(trains(segment));
  if (std::ranges::find(wants, true) == wants.end()) return std::vector(wants.size(), true);
  for (int s = 0; s < std::ssize(graph.segments); ++s) {
    for (const Graph::Edge& edge : graph.edges)
      if (edge.to.segment == s && edge.from.segment != Graph::kData && wants[edge.from.segment])
        wants[s] = true;
  }
  return wants;
}

void leave_out_unwanted(Graph& graph) {
  const std::vector<bool> wants = wants_gradients(graph);
  for (std::size_t s = 0; s < wants.size(); ++s)
    if (!wants[s]) leave_out_backward({&graph.segments[s], 1});
}

void leave_out_backward(std::span<SegmentSpec> segments) {
  for (SegmentSpec& segment : segments) {
    for (LayerSpec& layer : segment.layers) {
      layer.x_until = layer.y_until = Until::Forward;
      layer.dy_until = Until::Input;
      for (KeptTensor& kept : layer.kept_by_forward) kept.until = Until::Forward;
      for (ReadTensor& read : layer.reads) read.until = Until::Forward;
      layer.kept_by_input.clear();
      layer.sums.clear();
      layer.backward_input.clear();
      layer.backward_weight.clear();
    }
  }
}

std::int64_t trained_count(std::span<const SegmentSpec> segments) {
  std::int64_t count = 0;
  for_each_parameter(segments, [&](const SegmentSpec&, const ParameterSpec& parameter) {
    if (parameter.trainable && parameter.tied_to.empty()) count += parameter.elements();
  });
  return count;
}

}  // namespace cleave
