#pragma once

#include <limits>
#include <span>
#include <vector>

#include "cleave/plan/time/costs.h"
#include "cleave/schedule/program.h"

namespace cleave::plan::ordering {

// Microbatches are alike, so it never pays to let one overtake another: rename them by their turn
// at each stage and every dependency still holds. An order of a device is therefore a sequence of
// lanes, and the n-th entry of a lane is microbatch n.

/// What a lane does for its stage.
enum PassKind { kForward, kInput, kWeight };
inline constexpr int kPasses = 3;

inline constexpr double kNever = std::numeric_limits<double>::infinity();

constexpr int lane_of(int stage, PassKind pass) {
  return stage * kPasses + pass;
}
constexpr int stage_of(int lane) {
  return lane / kPasses;
}
constexpr PassKind pass_of(int lane) {
  return static_cast<PassKind>(lane % kPasses);
}

/// A lane waits for the same microbatch in another stage's lane, `delay` after its end; or, because
/// no more than `behind` messages may be on their way, for the one that many microbatches earlier.
struct Need {
  int lane = 0;
  double delay = 0;
  int behind = 0;
};

/// Find an order: stages on devices, what they take, what they need, what fits.
struct Problem {
  int stages = 0;
  int devices = 0;
  int microbatches = 0;
  std::vector<int> device_of;            ///< [stage]
  std::vector<double> duration;          ///< [lane]
  std::vector<std::vector<Need>> needs;  ///< [lane]
  std::vector<double> activation;        ///< [stage], what a microbatch counts from F to W
  std::vector<double> limit;             ///< [device], the most that may be alive

  // The least of each among the known schedules, not to be exceeded.
  double makespan_goal = std::numeric_limits<double>::infinity();
  double cost_goal = std::numeric_limits<double>::infinity();

  int lanes() const { return stages * kPasses; }
  int device_of_lane(int lane) const { return device_of[stage_of(lane)]; }
  std::vector<std::vector<int>> stages_of_devices() const;
};

/// [device] -> lanes, in order.
using Orders = std::vector<std::vector<int>>;

/// `layout` supplies placement and edges; its lists do not matter.
Problem make_problem(const schedule::Program& layout, const Costs& costs,
                     std::span<const double> activation, std::span<const double> limit);

/// Splits every B into I and W, and puts passes that a stage's gradient kind leaves out right where
/// they take no time. The program has compute only, one replica, all stages in all microbatches,
/// and microbatches in order.
Orders to_orders(const schedule::Program& program);

/// `layout` with these lists, less the passes that gradient kinds leave out.
schedule::Program to_program(const schedule::Program& layout, const Orders& orders);

/// True if every pass follows the one before it and memory holds at every instruction.
bool is_valid(const Problem& problem, int device, const std::vector<int>& order);

/// True if one more F of `stage` cannot get its device stuck: what has not run all its F there, the
/// new one included, leaves room for the later stages of one microbatch. The rest will end by
/// itself. `stages` are the device's, in the order in which a microbatch passes them; `done` counts
/// by lane.
bool leaves_a_way_out(const Problem& problem, std::span<const int> stages,
                      const std::vector<int>& done, int stage);

/// Room for rounding when activations are thirds and the limit is their sum.
inline constexpr double kSlack = 1e-9;

}  // namespace cleave::plan::ordering
