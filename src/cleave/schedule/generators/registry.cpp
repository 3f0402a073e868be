#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "cleave/base/check.h"
#include "cleave/schedule/generators/generator.h"

namespace cleave::schedule {
namespace {

struct Entry {
  std::string_view name;
  Program (*generate)(const PipelineShape&);
  int default_chunks;
  int most_chunks;  ///< least is default_chunks if the two are equal, else 1
};

constexpr int kMostChunks = 1024;

constexpr std::array kEntries = {
    Entry{"gpipe", gpipe, 1, 1},
    Entry{"1f1b", one_f_one_b, 1, 1},
    Entry{"interleaved", interleaved, 2, kMostChunks},
    Entry{"looped-bfs", looped_bfs, 2, kMostChunks},
    Entry{"zb-h1", zb_h1, 1, 1},
    Entry{"zb-h2", zb_h2, 1, 1},
    Entry{"zbv", zbv, 2, 2},
    Entry{"v-half", v_half, 2, 2},
    Entry{"v-min", v_min, 2, 2},
    Entry{"dualpipev", dualpipev, 2, 2},
};

/// Keeps every index and count of a program within 32 bits, and a mistyped size from filling the
/// memory.
constexpr std::int64_t kMostActions = 100'000'000;

void check(const Entry& entry, const PipelineShape& shape) {
  require(shape.devices >= 1, "a pipeline needs at least one device, got ", shape.devices);
  require(shape.microbatches >= 1, "a step needs at least one microbatch, got ",
          shape.microbatches);
  const bool fixed = entry.default_chunks == entry.most_chunks;
  require(!fixed || shape.chunks == entry.default_chunks, "schedule ", entry.name, " has ",
          entry.default_chunks, entry.default_chunks == 1 ? " stage" : " stages",
          " on each device, not ", shape.chunks,
          "; leave chunks out or choose interleaved or looped-bfs");
  require(shape.chunks >= 1 && shape.chunks <= entry.most_chunks, "chunks must be between 1 and ",
          entry.most_chunks, ", got ", shape.chunks);
  require(shape.devices <= kMostActions / shape.chunks / shape.microbatches, shape.devices,
          " devices x ", shape.chunks, " chunks x ", shape.microbatches,
          " microbatches are more than the ", kMostActions, " forwards that a program may have");
}

}  // namespace

Program generate(std::string_view schedule, const PipelineShape& shape) {
  const auto* entry = std::ranges::find(kEntries, schedule, &Entry::name);
  if (entry == kEntries.end()) {
    std::string known;
    for (const Entry& e : kEntries) (known += ' ') += e.name;
    throw UserError(detail::concat("unknown schedule '", schedule, "'; known are", known));
  }
  PipelineShape resolved = shape;
  if (resolved.chunks == 0) resolved.chunks = entry->default_chunks;
  check(*entry, resolved);
  return entry->generate(resolved);
}

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kEntries) names.push_back(entry.name);
  return names;
}

}  // namespace cleave::schedule
