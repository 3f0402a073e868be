#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cleave::plan {

// The rules of layouts. Each has one sentence, which is a UserError, and this is its only place:
// configs, clusters and the compiler check the rules whose numbers they know. Whether a schedule
// takes so many chunks, schedule::generate says.

/// The degrees of the axes make up the devices.
void check_devices(std::int64_t pipeline, std::int64_t tensor, std::int64_t data,
                   std::int64_t devices);

/// Every stage has a segment: a layer, or one of `ends` that come before and after the layers.
void check_stages(std::int64_t stages, std::int64_t layers, std::int64_t ends = 2);

/// Every layer has a stage.
void check_partition(std::span<const std::int64_t> partition, std::int64_t layers);

/// A partition has a number for each of so many stages on each device.
void check_partition_stages(std::span<const std::int64_t> partition, std::int64_t pipeline,
                            std::int64_t chunks);

/// ZeRO shares memory among replicas.
void check_zero(std::int64_t zero, std::int64_t data);

/// Whether so many shards of a grid can be dealt out to `degree` devices of their axis.
bool folds_onto(std::int64_t shards, std::int64_t degree);

/// Throws UserError unless they do: the shards of an axis of the grid, "data", "tensor" or the
/// "vision.tensor" of encoders.
void check_shards(std::string_view axis, std::int64_t shards, std::int64_t degree);

/// Two modules with different numbers of replicas: a device of the one with fewer stands for an
/// aligned part of the shards that the tree of sums has, or for all of them.
void check_modules(std::int64_t vision, std::int64_t language);

/// What a run has beside tensor degrees that differ between modules.
struct ModuleDegrees {
  std::int64_t vision = 1;
  std::int64_t language = 1;
  bool own_devices = true;  ///< placement "own"
  bool sequence_parallel = false;
  bool usual_order = true;  ///< of the axes
  std::int64_t chunks = 1;  ///< 0: what the schedule wants
  std::string schedule = {};
  bool accelerators = false;
  bool emulated = false;
  bool owners = false;   ///< or clients that average
  bool elastic = false;  ///< and served
};

/// Such degrees go with all of that.
void check_degrees(const ModuleDegrees& run);

/// Microbatches can be dealt out to the data shards. `key` is how the batch is called.
void check_batch(std::string_view key, std::int64_t batch, std::int64_t microbatch,
                 std::int64_t shards);

/// Tensor shards have whole pieces of `what`, of which a model has so many: heads, columns.
void check_pieces(std::string_view what, std::int64_t pieces, std::int64_t shards);

}  // namespace cleave::plan
