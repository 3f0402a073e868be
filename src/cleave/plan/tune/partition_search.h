#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cleave/plan/time/costs.h"
#include "cleave/plan/tune/partition.h"
#include "cleave/schedule/program.h"

namespace cleave::plan {

/// One segment of a model on a device of speed 1.
struct SegmentWork {
  StageCosts time;         ///< F, I and W per microbatch
  std::int64_t state = 0;  ///< bytes: weights, gradients, optimizer
  std::int64_t kept = 0;   ///< bytes per microbatch alive
  /// What it asks of the backward passes of its stage, which runs those that nobody asks for not.
  schedule::GradientKind gradients = schedule::GradientKind::Full;
};

/// Seconds of the passes that a stage of this kind runs.
double passes_run(const StageCosts& time, schedule::GradientKind kind);

/// One device of a pipeline.
struct PipelineDevice {
  double speed = 1;
  std::int64_t memory = std::numeric_limits<std::int64_t>::max();
};

/// Segments to be cut into the stages of a schedule: a chain, or a graph in the order of a chain.
struct PartitionProblem {
  std::vector<SegmentWork> segments;
  std::vector<PipelineDevice> devices;
  std::string schedule = "1f1b";
  int microbatches = 1;
  int chunks = 0;                     ///< stages per device; 0: what the schedule wants
  std::vector<LinkCosts> links = {};  ///< [edge] of the schedule; empty: messages take no time
  std::int64_t message_bytes = 0;
  double at_once = 0;                ///< devices that can compute at the same time; 0: all
  std::vector<PartEdge> graph = {};  ///< which segment reads which; empty: the one before it
};

struct PartitionChoice {
  std::vector<std::int64_t> sizes;  ///< segments of each stage
  double seconds = 0;               ///< simulated
};

/// How long to look for a cut.
enum class Effort : std::uint8_t {
  Bottleneck,  ///< the first of the two parts below: a few percent longer, at one simulation
  Refined,
};

/// The cut that makes the simulated step shortest within every device's memory; nothing if no cut
/// fits that it found.
///
/// Begins with the cut whose slowest device is fastest, exact by dynamic programming, memory
/// included where each device has one stage; then moves borders, alone and together, as long as the
/// simulated step gets shorter.
std::optional<PartitionChoice> choose_partition(const PartitionProblem& problem,
                                                Effort effort = Effort::Refined);

/// One cut, simulated; its memory is not looked at. The search's own measure, and the tests'.
double partition_seconds(const PartitionProblem& problem, const std::vector<std::int64_t>& sizes);

/// [device] bytes: the state of its segments, and what it keeps of the microbatches alive.
std::vector<std::int64_t> partition_bytes(const PartitionProblem& problem,
                                          const std::vector<std::int64_t>& sizes);

}  // namespace cleave::plan
