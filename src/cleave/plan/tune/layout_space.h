#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cleave/plan/tune/layout.h"

namespace cleave::plan {

/// Says whether a layout, with what it does about memory, is one to choose from.
using Allowed = std::function<bool(const Layout&)>;

/// What a search may choose from. What is given has one value.
struct LayoutSpace {
  std::int64_t devices = 1;
  std::int64_t layers = 1;  ///< blocks of the model
  /// Of these, blocks of an encoder that may have devices and replicas of its own; 0: none.
  std::int64_t encoder_layers = 0;
  std::int64_t batch = 1;         ///< sequences per step, all devices together
  Layout given = {};              ///< what no other field opens: order, partition, …
  std::vector<int> tensor = {1};  ///< degrees that the model can be cut by
  std::optional<int> pipeline = {};
  std::optional<int> data = {};
  std::optional<std::int64_t> data_shards = {};  ///< that a data degree has to divide
  std::optional<int> microbatch = {};
  std::int64_t most_microbatch = 32;
  std::optional<std::string> schedule = {};
  std::optional<int> chunks = {};
  bool any_graph = false;  ///< stages need not form a chain: only schedules that take any graph
  bool keeps_all = false;  ///< a loss over the step: only schedules with every F before the turn
  std::optional<int> most_zero = {};                ///< if ZeRO is open: up to here, to save memory
  std::vector<schedule::Recompute> recompute = {};  ///< if it is open: the kinds, the least first
  /// Where layouts are estimated, many more can be compared: of schedules that are marked for it,
  /// up to eight chunks of equal size, each degree of ZeRO, sequence parallelism on and off.
  bool on_clusters = false;
  Allowed allowed = {};  ///< none: all layouts are
};

/// How the devices are divided, and on clusters whose state is divided with them. What is left to
/// choose only decides activations and time.
std::vector<Layout> divisions(const LayoutSpace& space);

/// The same where an encoder has devices of its own, and 2, 4, 8, … times as many replicas as the
/// rest of the model, or the other way round. None where pipeline, data or partition are given.
std::vector<Layout> divisions_apart(const LayoutSpace& space);

/// The ways to run `division`, but for what saves memory: microbatch, schedule, chunks, on clusters
/// sequence parallelism. The plainer of two schedules comes first, and wins where both are as fast.
std::vector<Layout> runs(const LayoutSpace& space, const Layout& division);

/// The runs of all divisions.
std::vector<Layout> layouts(const LayoutSpace& space);

/// What `layout` can do about memory, where ZeRO and recompute are open: every combination that is
/// allowed, the least first.
std::vector<Layout> savings(const LayoutSpace& space, const Layout& layout);

}  // namespace cleave::plan
