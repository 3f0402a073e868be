#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::schedule {

/// What a schedule is made for.
struct PipelineShape {
  int devices = 1;
  int microbatches = 1;
  int chunks = 0;  ///< stages per device; 0: what the schedule wants
  /// Further microbatches that a device begins for each stage after its own, before its first
  /// backward pass: they keep it busy while messages are on their way.
  int early = 0;

  /// Who feeds whom, if the stages are no chain: one stage on each device, `devices` of them.
  std::vector<Edge> graph = {};
  /// [stage] how many replicas each has; empty: one of each. All divide the most of them.
  std::vector<int> replicas = {};
  int further_ahead = 0;             ///< microbatches beyond what the schedule lets run ahead
  std::vector<int> frozen = {};      ///< stages whose weights do not learn
  std::vector<Absence> absent = {};  ///< ascending
};

/// How the stages of a device follow each other through the pipeline.
enum class Fold : std::uint8_t {
  Loop,  ///< chunk c of device d is stage c * devices + d: every chunk runs down the devices
  V,     ///< chunk 0 runs down, chunk 1 back up: the first device also holds the last stage
};

/// At which place of a chunk's way down the devices a device stands, and the device of a place.
constexpr int folded(Fold fold, int devices, int chunk, int at) {
  return fold == Fold::V && chunk % 2 == 1 ? devices - 1 - at : at;
}

inline constexpr int kMostChunks = 1024;

/// A schedule: the rule that makes its programs, and what the rest of cleave must know of it.
struct Schedule {
  std::string_view name;
  /// The shape is valid and its chunks are set.
  Program (*generate)(const PipelineShape& shape) = nullptr;

  int chunks = 1;       ///< stages per device unless told otherwise
  int most_chunks = 1;  ///< equal to `chunks`: it has no other number of them
  Fold fold = Fold::Loop;
  bool any_graph = false;        ///< otherwise it is made for a chain of stages
  bool splits_backward = false;  ///< I and W apart: the last gradient leaves without waiting for W
  bool keeps_all = false;        ///< every microbatch of the step is alive at the turn
  bool starts_early = false;     ///< it heeds PipelineShape::early
  /// Its order is made of rounds that fill the pipeline, without the microbatches of them that do
  /// not exist.
  bool whole_rounds = false;

  // What a search for a layout makes of it.
  int rank = 100;  ///< the plainer and leaner is lower, and wins where two are equally fast
  int searched_chunks = 0;   ///< most chunks that are tried; 0: `chunks`
  bool on_clusters = false;  ///< tried where layouts are estimated and not measured
};

/// All schedules, in the order in which they are listed to people.
const std::vector<Schedule>& schedules();

/// Adds a schedule to those that configs and commands know. Throws UserError if the name is taken.
/// To be called before anything else is: the table is not locked.
void add_schedule(const Schedule& schedule);

/// Throws UserError, with the names that there are, if none has this one.
const Schedule& schedule_named(std::string_view name);

/// The plainest schedule that can have so many stages on each device (or kMostChunks, if that is
/// less): what is taken where nobody names one.
const Schedule& plainest_schedule(std::int64_t chunks);

/// The names of all schedules.
std::vector<std::string_view> schedule_names();

/// The compute-only program of one replica, or of as many as PipelineShape::replicas says of each
/// stage: F, I, W, B of whole stages as far as frozen stages and absences leave any, their
/// placement, and the edges, without bytes until a model gives them their size. Throws UserError on
/// an unknown name and on a shape that the schedule cannot have.
Program generate(std::string_view schedule, const PipelineShape& shape);

}  // namespace cleave::schedule
