#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/schedule/passes.h"
#include "cleave/spec/mesh.h"
#include "cleave/spec/placement.h"

namespace cleave::plan {

/// How a model is laid out over devices, and its batch over time.
struct Layout {
  int pipeline = 1;
  int data = 1;
  int tensor = 1;
  AxisOrder order = kDefaultOrder;  ///< which axis neighbours among devices are neighbours along
  bool last_first = false;          ///< device 0 is the end of a pipeline: Mesh::last_first
  bool sequence_parallel = false;   ///< divide norms and residuals by tokens over the tensor axis
  int chunks = 0;                   ///< stages per device; 0: what the schedule wants
  std::string schedule = "1f1b";
  std::vector<std::int64_t> partition;  ///< blocks of each stage; empty: as even as possible
  /// Where replicas cut the model at different places: [replica][stage] the stage of the schedule's
  /// pipeline that a stage of `partition` is a part of. Empty: all have the schedule's own stages.
  std::vector<std::vector<int>> cuts;
  Placement placement = Placement::Even;  ///< of the encoders of a model that has some
  int encoder_stages = 0;                 ///< stages that they have, where these are their own
  int encoder_data = 0;                   ///< replicas of these; 0: as many as of the others
  int encoder_tensor = 0;                 ///< their tensor degree; 0: that of the others
  int zero = 0;  ///< what replicas share: 1 optimizer state, 2 gradients too, 3 weights too
  /// [block], or one for all of them; empty: none.
  std::vector<schedule::Recompute> recompute;
  /// What leaves a device's memory while it is not used; nothing given: what makes the plan fit.
  std::optional<schedule::Offload> offload = schedule::Offload::Nothing;
  int receive_ahead = 1;  ///< instructions from a RECV to its reader: LowerOptions::receive_ahead
  int early = 0;          ///< microbatches begun early: PipelineShape::early
  int microbatch = 1;     ///< sequences; a graph that is compiled has them in its shapes

  /// Replicas of the stages that have the most: what the batch is divided by.
  int replicas() const { return std::max(data, encoder_data); }
  /// Of the pipeline as a whole, with all replicas that its stages have of each other's.
  int copies() const { return encoder_data == 0 ? data : std::min(data, encoder_data); }
  /// Copies that a schedule's program is made into: it has those that cut the model differently.
  int copies_of_order() const { return cuts.empty() ? copies() : 1; }
  /// [stage] replicas within such a copy; empty: one of each.
  std::vector<int> replicas_of_stages() const;
  /// Places along the pipeline of such a copy.
  int places() const;
  /// Whether modules have numbers of replicas of their own.
  bool replicas_differ() const { return encoder_data > 0 && encoder_data != data; }
  /// Whether modules have tensor degrees of their own.
  bool degrees_differ() const { return encoder_tensor > 0 && encoder_tensor != tensor; }

  Mesh mesh() const;
  std::int64_t devices() const {
    return degrees_differ() ? mesh().devices() : std::int64_t{tensor} * places() * copies();
  }
  int stages() const { return pipeline * (chunks > 0 ? chunks : 1); }
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// What is computed again of a block; without a number, of every block alike.
schedule::Recompute recompute_of(const Layout& layout, std::size_t block = 0);

/// How much `layout` does about memory: 0 if it shares and recomputes nothing.
int degree_of_saving(const Layout& layout);

/// "none", "selective", "full".
std::string_view to_string(schedule::Recompute recompute);

/// The same of all blocks, or "by layer".
std::string_view recompute_name(const Layout& layout);

/// "tp=8,pp=4,dp=32,microbatch=2,chunks=3,…": what --layout reads.
std::string to_string(const Layout& layout);

}  // namespace cleave::plan
