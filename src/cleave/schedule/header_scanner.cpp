#include "cleave/schedule/header_scanner.h"

#include <algorithm>
#include <limits>

#include "cleave/schedule/text_words.h"

namespace cleave::schedule {

void HeaderScanner::header_line() {
  const std::string_view word = words_[0];
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
  if (word == "sharing") return per_stage(program_.sharing, sharing_named);
  if (word == "gradients") return per_stage(program_.gradients, gradient_kind);
  if (word == "absent") return absent();
  if (word == "reads") return reads();
  if (word == "collects") return collects();
  if (word == "through-host") return through_host();
  if (word == "budget") return budget(program_.budgets);
  if (word == "outside-budget") return budget(program_.outside_budgets);
  fail(word, "unknown word ", quoted(word));
}

void HeaderScanner::header_number(int& value) {
  std::string_view& given = given_[words_[0][0]];
  if (!given.empty()) fail(words_[0], quoted(words_[0]), " are given twice");
  value = count(1);
  no_more_than(2);
  given = words_[1];
}

void HeaderScanner::name() {
  if (words_.size() < 2) return;
  const char* end = words_.back().data() + words_.back().size();
  program_.schedule.assign(words_[1].data(), end);
  if (std::ranges::any_of(program_.schedule, [](unsigned char c) { return c < ' '; }))
    fail(words_[1], "a name has no control characters");
}

void HeaderScanner::segments() {
  if (!program_.segments.empty()) fail(words_[0], "segments are given twice");
  for (std::size_t k = 1; k < words_.size(); ++k) program_.segments.push_back(count(k));
  one_per_stage(program_.segments.size());
}

void HeaderScanner::place() {
  const int stage = below(1, program_.stages);
  if (stage != static_cast<int>(program_.placement.size()))
    fail(words_[1], "the next stage to place is ", program_.placement.size());
  auto& devices = program_.placement.emplace_back();
  for (std::size_t k = 2; k < words_.size(); ++k)
    devices.push_back(below(k, std::numeric_limits<std::int32_t>::max()));
  place_words_.push_back(words_[0]);
}

void HeaderScanner::edge() {
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

void HeaderScanner::edges() {
  if (words_.size() != 2 || words_[1] != "chain") fail(words_[0], "did you mean 'edges chain'?");
  if (!program_.edges.empty()) fail(words_[0], "'edges chain' comes once, before other edges");
  if (program_.stages > size()) fail_size();
  for (int stage = 0; stage + 1 < program_.stages; ++stage)
    program_.edges.push_back({.from = stage, .to = stage + 1});
}

/// reads STAGE SEGMENT FROM F|I|W [edge EDGE]
void HeaderScanner::reads() {
  constexpr int kMost = std::numeric_limits<std::int32_t>::max();
  SegmentRead read{.stage = below(1, program_.stages), .segment = below(2, kMost)};
  read.from = below(3, kMost);
  const std::string_view until = words_.size() > 4 ? words_[4] : "";
  read.until = until == "F"   ? Op::Forward
               : until == "I" ? Op::BackwardInput
               : until == "W" ? Op::BackwardWeight
                              : Op::Recompute;
  if (read.until == Op::Recompute) fail(words_.back(), "say which pass reads it last: F, I or W");
  if (words_.size() > 5) {
    if (words_[5] != "edge") fail(words_[5], "did you mean 'edge'?");
    read.edge = below(6, kMost);
  }
  no_more_than(7);
  program_.reads.push_back(read);
}

void HeaderScanner::tie() {
  Tie tie{.first = below(1, program_.stages), .second = below(2, program_.stages)};
  if (words_.size() > 3) tie.bytes = bytes(3);
  no_more_than(4);
  program_.ties.push_back(tie);
}

template <class Value>
void HeaderScanner::per_stage(std::vector<Value>& values,
                              std::optional<Value> (*named)(std::string_view)) {
  if (!values.empty()) fail(words_[0], words_[0], " are given twice");
  for (std::size_t k = 1; k < words_.size(); ++k) {
    const std::optional<Value> value = named(words_[k]);
    if (!value) fail(words_[k], quoted(words_[k]), " is nothing that ", words_[0], " can be");
    values.push_back(*value);
  }
  one_per_stage(values.size());
}

void HeaderScanner::one_per_stage(std::size_t given) const {
  if (static_cast<std::int64_t>(given) != program_.stages)
    fail(words_[0], words_[0], " of ", given, " stages are given, but there are ", program_.stages);
}

/// absent STAGE MICROBATCH [replica REPLICA]
void HeaderScanner::absent() {
  if (program_.microbatches == 0)
    fail(words_[0], "say how many microbatches there are before 'absent'");
  Absence absence{below(1, program_.stages), below(2, program_.microbatches)};
  if (words_.size() > 3) {
    if (words_[3] != "replica") fail(words_[3], "did you mean 'replica'?");
    absence.replica = below(4, program_.replicas);
  }
  no_more_than(5);
  if (!program_.absent.empty() && absence <= program_.absent.back())
    fail(words_[1], "absences are written once each, by stage, then by microbatch and replica");
  program_.absent.push_back(absence);
}

void HeaderScanner::collects() {
  const int stage = below(1, program_.stages);
  no_more_than(2);
  if (!program_.collecting.empty() && stage <= program_.collecting.back())
    fail(words_[1], "stages that collect are written once each, in order");
  program_.collecting.push_back(stage);
}

void HeaderScanner::through_host() {
  std::vector<int>& devices = program_.through_host;
  if (!devices.empty()) fail(words_[0], words_[0], " is given twice");
  for (std::size_t k = 1; k < words_.size(); ++k) {
    const int device = below(k, std::numeric_limits<std::int32_t>::max());
    if (!devices.empty() && device <= devices.back())
      fail(words_[k], "devices are written once each, in order");
    devices.push_back(device);
  }
}

void HeaderScanner::budget(std::vector<std::int64_t>& budgets) {
  if (below(1, std::numeric_limits<std::int32_t>::max()) != std::ssize(budgets))
    fail(words_[1], "the next budget is that of device ", budgets.size());
  budgets.push_back(bytes(2));
  no_more_than(3);
}

void HeaderScanner::fail_size() const {
  fail(given_.at('s'), "the text is too short for ", program_.stages, " stages x ",
       program_.replicas, " replicas x ", program_.microbatches, " microbatches");
}

/// Every (stage, replica, microbatch) has at least one instruction, of two characters or more; a
/// header that promises more than that is refused before anything is made for it.
void HeaderScanner::check_header() {
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
  for (const auto* budgets : {&program_.budgets, &program_.outside_budgets})
    if (!budgets->empty() && std::ssize(*budgets) != program_.devices)
      fail(words_[0], budgets->size(), " devices have a budget, but there are ", program_.devices,
           "; give all of them one, or none");
}

void HeaderScanner::place_by_default() {
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

void HeaderScanner::check_placement() {
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

}  // namespace cleave::schedule
