#include "cleave/plan/tune/layout_space.h"

#include <algorithm>
#include <string_view>

#include "cleave/schedule/generators.h"

namespace cleave::plan {
namespace {

using schedule::Recompute;

constexpr int kMostChunksOnClusters = 8;

/// More stages on a device than a schedule wants make it so much less plain.
constexpr int kRankOfMoreChunks = 4;

struct ScheduleChoice {
  std::string_view schedule;
  int chunks = 1;
  int rank = 0;  ///< the plainer and leaner is lower
};

/// What the model leaves of the schedules. Where it leaves few, clusters are planned with them too.
bool suits(const LayoutSpace& space, const schedule::Schedule& s) {
  if (space.keeps_all) return s.any_graph && s.keeps_all;
  return (s.any_graph || !space.any_graph) && (s.on_clusters || !space.on_clusters);
}

std::vector<ScheduleChoice> schedule_choices(const LayoutSpace& space) {
  std::vector<ScheduleChoice> result;
  for (const schedule::Schedule& s : schedule::schedules()) {
    if (!suits(space, s)) continue;
    const int most =
        space.on_clusters ? std::min(s.most_chunks, kMostChunksOnClusters) : s.searched_chunks;
    result.push_back({s.name, s.chunks, s.rank});
    for (int chunks = s.chunks + 1; chunks <= most; ++chunks)
      result.push_back({s.name, chunks, s.rank + kRankOfMoreChunks});
  }
  std::ranges::stable_sort(result, {}, &ScheduleChoice::rank);
  return result;
}

/// What is given, or the divisors of `whole`.
std::vector<int> choices(std::optional<int> given, std::int64_t whole, std::int64_t most) {
  if (given) return {*given};
  std::vector<int> result;
  for (int value = 1; value <= std::min(whole, most); ++value) {
    if (whole % value == 0) result.push_back(value);
  }
  return result;
}

/// A stage needs a segment of its own, and a given partition says how many stages there are.
bool has_stages(const LayoutSpace& space, const Layout& layout) {
  const std::int64_t stages = layout.stages();
  if (!layout.partition.empty()) return std::ssize(layout.partition) == stages;
  const std::int64_t most = space.layers + 2;  // with the model's ends as stages of their own
  const bool equal = space.layers % stages == 0 || (stages == most && space.layers > 1);
  return stages <= most && (!space.on_clusters || layout.chunks <= 1 || equal);
}

void add_schedules(const LayoutSpace& space, Layout layout, std::vector<Layout>& result) {
  const auto add = [&](std::string_view schedule, int chunks) {
    layout.schedule = schedule;
    layout.chunks = chunks;
    if (has_stages(space, layout)) result.push_back(layout);
  };
  const std::vector<ScheduleChoice> known = schedule_choices(space);
  if (layout.pipeline == 1 && !space.schedule && space.chunks.value_or(1) == 1)
    return add(space.keeps_all ? known.front().schedule : schedule::plainest_schedule(1).name, 1);
  bool listed = false;
  for (const ScheduleChoice& choice : known) {
    if (space.schedule && *space.schedule != choice.schedule) continue;
    if (space.chunks.value_or(choice.chunks) != choice.chunks) continue;
    listed = true;
    add(choice.schedule, choice.chunks);
  }
  if (space.schedule && !listed) add(*space.schedule, space.chunks.value_or(0));
}

/// State is divided among replicas; PyTorch and Megatron divide no more of it along a pipeline.
int most_zero_on_clusters(const Layout& division) {
  return division.data == 1 ? 0 : division.pipeline == 1 ? 3 : 1;
}

/// The ways to give `places` to an encoder and to what reads it, `fold` replicas of the one for
/// each of the other.
std::vector<Layout> folds(const LayoutSpace& space, std::int64_t places, int fold) {
  std::vector<Layout> result;
  const auto add = [&](std::int64_t encoder, std::int64_t rest, int encoder_data, int data) {
    if (encoder < 1 || encoder > space.encoder_layers || rest < 1 ||
        rest > space.layers - space.encoder_layers)
      return;
    Layout one = space.given;
    one.placement = Placement::Own;
    one.pipeline = static_cast<int>(encoder + rest);
    one.encoder_stages = static_cast<int>(encoder);
    one.encoder_data = encoder_data;
    one.data = data;
    result.push_back(one);
  };
  for (std::int64_t folded = 1; folded * fold < places; ++folded) {
    add(folded, places - folded * fold, fold, 1);
    add(places - folded * fold, folded, 1, fold);
  }
  return result;
}

}  // namespace

std::vector<Layout> divisions(const LayoutSpace& space) {
  std::vector<Layout> result;
  const std::int64_t deepest = space.on_clusters ? space.layers : space.devices;
  for (const int tensor : space.tensor) {
    for (const int pipeline : choices(space.pipeline, space.devices / tensor, deepest)) {
      Layout one = space.given;
      one.tensor = tensor;
      one.pipeline = pipeline;
      one.data = static_cast<int>(space.devices / tensor / pipeline);
      if (one.devices() != space.devices || space.data.value_or(one.data) != one.data ||
          space.batch % one.data != 0)
        continue;
      result.push_back(one);
      if (!space.on_clusters) continue;
      for (one.zero = 1; one.zero <= most_zero_on_clusters(one); ++one.zero) result.push_back(one);
    }
  }
  return result;
}

std::vector<Layout> divisions_apart(const LayoutSpace& space) {
  std::vector<Layout> result;
  const bool open = !space.pipeline && !space.data && space.given.partition.empty();
  if (!open || space.encoder_layers == 0 || space.on_clusters) return result;
  for (const int tensor : space.tensor) {
    for (const int copies : choices({}, space.devices / tensor, space.devices)) {
      const std::int64_t places = space.devices / tensor / copies;
      for (int fold = 2; fold < places; fold *= 2) {
        for (const Layout& one : folds(space, places, fold)) {
          result.push_back(one);
          result.back().tensor = tensor;
          result.back().data *= copies;
          result.back().encoder_data *= copies;
        }
      }
    }
  }
  std::erase_if(result, [&](const Layout& one) { return space.batch % one.replicas() != 0; });
  return result;
}

std::vector<Layout> runs(const LayoutSpace& space, const Layout& division) {
  std::vector<Layout> result;
  const std::int64_t shards = space.data_shards.value_or(division.replicas());
  if (shards % division.replicas() != 0) return result;
  for (const int microbatch :
       choices(space.microbatch, space.batch / division.replicas(), space.most_microbatch)) {
    if (space.batch % (microbatch * shards) != 0) continue;
    Layout layout = division;
    layout.microbatch = microbatch;
    add_schedules(space, layout, result);
    if (!space.on_clusters || layout.tensor == 1) continue;
    layout.sequence_parallel = true;
    add_schedules(space, layout, result);
  }
  return result;
}

std::vector<Layout> layouts(const LayoutSpace& space) {
  std::vector<Layout> result;
  for (const Layout& division : divisions(space)) {
    for (Layout& run : runs(space, division)) result.push_back(std::move(run));
  }
  LayoutSpace apart = space;
  apart.any_graph = true;  // schedules for chains have no stages of several replicas
  for (const Layout& division : divisions_apart(space)) {
    for (Layout& run : runs(apart, division)) result.push_back(std::move(run));
  }
  return result;
}

std::vector<Layout> savings(const LayoutSpace& space, const Layout& layout) {
  std::vector<Layout> result;
  const int first = space.most_zero ? 0 : layout.zero;
  const int last = layout.data == 1 ? first : space.most_zero.value_or(first);
  for (int zero = first; zero <= last; ++zero) {
    Layout run = layout;
    run.zero = zero;
    if (space.recompute.empty()) result.push_back(run);
    for (const Recompute kind : space.recompute) {
      run.recompute = {kind};
      result.push_back(run);
    }
  }
  if (space.allowed) std::erase_if(result, [&](const Layout& one) { return !space.allowed(one); });
  std::ranges::stable_sort(result, {}, degree_of_saving);
  return result;
}

}  // namespace cleave::plan
