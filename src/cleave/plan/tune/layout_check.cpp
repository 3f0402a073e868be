#include "cleave/plan/tune/layout_check.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "cleave/base/check.h"
#include "cleave/schedule/program_file.h"

namespace cleave::plan {

void check_devices(std::int64_t pipeline, std::int64_t tensor, std::int64_t data,
                   std::int64_t devices) {
  const std::int64_t product = pipeline * tensor * data;
  require(product == devices, "pipeline ", pipeline, " × tensor ", tensor, " × data ", data,
          " makes ", product, " devices, but there are ", devices,
          "; change a degree, or the number of devices");
}

void check_stages(std::int64_t stages, std::int64_t layers, std::int64_t ends) {
  require(stages <= layers + ends, stages, " stages need at least ", stages - ends,
          " layers, and the model has ", layers, "; use fewer pipeline devices or chunks");
}

void check_partition(std::span<const std::int64_t> partition, std::int64_t layers) {
  const std::int64_t placed = std::reduce(partition.begin(), partition.end());
  require(placed == layers, "parallel.partition places ", placed, " layers, but the model has ",
          layers, "; every layer needs one stage");
}

void check_partition_stages(std::span<const std::int64_t> partition, std::int64_t pipeline,
                            std::int64_t chunks) {
  require(std::ssize(partition) == pipeline * chunks, "parallel.partition lists ", partition.size(),
          " stages, but pipeline ", pipeline, " × chunks ", chunks, " makes ", pipeline * chunks,
          "; list one number for each stage");
}

void check_zero(std::int64_t zero, std::int64_t data) {
  require(zero == 0 || data > 1, "parallel.zero ", zero,
          " shares memory among replicas, but parallel.data is 1; set parallel.data to 2 or more, "
          "or parallel.zero to 0");
}

bool folds_onto(std::int64_t shards, std::int64_t degree) {
  if (shards == degree) return true;
  return std::has_single_bit(static_cast<std::uint64_t>(shards)) && shards % degree == 0;
}

void check_shards(std::string_view axis, std::int64_t shards, std::int64_t degree) {
  if (folds_onto(shards, degree)) return;
  require(std::has_single_bit(static_cast<std::uint64_t>(shards)), "numerics.", axis, "_shards ",
          shards, " is neither parallel.", axis, " ", degree,
          " nor a power of two; sums need one of them");
  throw UserError(detail::concat("numerics.", axis, "_shards ", shards,
                                 " cannot be shared by parallel.", axis, " ", degree,
                                 "; choose a degree that divides the shards"));
}

void check_modules(std::int64_t vision, std::int64_t language) {
  const auto [few, many] = std::minmax(vision, language);
  const bool folds = std::has_single_bit(static_cast<std::uint64_t>(many / few));
  require(many % few == 0 && (few == 1 || folds), "parallel.vision.data ", vision, " and replicas ",
          language,
          " of the language model do not fold into each other; make one 2, 4, 8, … times the "
          "other, or one of them 1");
}

void check_degrees(const ModuleDegrees& run) {
  const std::string degrees =
      detail::concat("parallel.vision.tensor ", run.vision, " beside tensor ", run.language,
                     " of the language model");
  const std::string equal = ", or make the degrees equal";
  require(run.own_devices, degrees,
          " is for modules on devices of their own; set parallel.placement = \"own\"", equal);
  require(!run.sequence_parallel, degrees,
          " divides no rows among devices; set parallel.sequence_parallel = false", equal);
  require(run.usual_order, degrees,
          " counts devices place by place; leave parallel.order and edge out", equal);
  require(run.chunks <= 1, degrees, " is for one stage on each device, not parallel.chunks ",
          run.chunks, "; leave that out", equal);
  require(!schedule::names_file(run.schedule), degrees, " has no order in the file ", run.schedule,
          "; take 1f1b, zb-h1, gpipe or auto", equal);
  require(!run.accelerators, degrees, " is for processors; leave devices.kind out", equal);
  require(!run.emulated, degrees, " is for devices that compute; leave devices.emulate out", equal);
  require(!run.owners, degrees, " is for devices of one owner; leave edge out", equal);
  require(!run.elastic, degrees,
          " is not planned anew when a device is lost; set train.elastic = false", equal);
}

void check_batch(std::string_view key, std::int64_t batch, std::int64_t microbatch,
                 std::int64_t shards) {
  const bool divides = batch % microbatch == 0 && batch / microbatch % shards == 0;
  std::int64_t both = 0;  // which may be beyond counting
  if (__builtin_mul_overflow(microbatch, shards, &both)) both = microbatch;
  require(divides, key, " ", batch, " is not divisible by microbatch ", microbatch, " × ", shards,
          " data shards (= ", both, "); change the batch or the microbatch");
}

void check_pieces(std::string_view what, std::int64_t pieces, std::int64_t shards) {
  require(pieces % shards == 0, what, " ", pieces, " cannot be divided among ", shards,
          " tensor shards; choose a divisor of it");
}

}  // namespace cleave::plan
