#include "cleave/train/config/module_checks.h"

#include "cleave/base/check.h"
#include "cleave/plan/tune/layout_check.h"
#include "cleave/schedule/program_file.h"

namespace cleave::train {
namespace {

/// Modules with different numbers of replicas: one side stands for several of the other's.
void check_module_replicas(const Config& c) {
  const ParallelConfig& p = c.parallel;
  require(!p.language_data || p.data == p.language_data, "parallel.data ", p.data.value_or(0),
          " and parallel.language.data ", p.language_data.value_or(0),
          " both say how many replicas the language model has; leave one out");
  if (!p.vision_data || p.vision_data == p.data) return;
  require(p.data && p.tensor && p.zero && p.recompute && c.train.microbatch,
          "parallel.vision.data is of a layout that is given; give parallel.data, tensor, zero, "
          "recompute and train.microbatch numbers, not \"auto\"");
  plan::check_modules(*p.vision_data, *p.data);
  require(p.chunks.value_or(1) == 1, "parallel.chunks ", p.chunks.value_or(1),
          " is for modules with equally many replicas; leave it out, or parallel.vision.data");
  require(!schedule::names_file(p.schedule), "parallel.schedule is the file ", p.schedule,
          ", which has the order of one replica; take 1f1b, zb-h1, gpipe or auto, or leave "
          "parallel.vision.data out");
  require(c.edge.owners.empty(),
          "parallel.vision.data is for devices of one owner; leave it or edge.owners out");
  require(c.devices.transport != Transport::Tcp || !c.train.elastic, "parallel.vision.data ",
          *p.vision_data,
          " is not planned anew when a device is lost; set train.elastic = false, or leave it out");
}

/// Modules with tensor degrees of their own.
void check_module_degrees(const Config& c) {
  const ParallelConfig& p = c.parallel;
  require(!p.language_tensor || p.tensor == p.language_tensor, "parallel.tensor ",
          p.tensor.value_or(0), " and parallel.language.tensor ", p.language_tensor.value_or(0),
          " both say into how many pieces layers of the language model are cut; leave one out");
  if (!p.degrees_differ()) return;
  require(has_tower(c), "parallel.vision.tensor ", *p.vision_tensor,
          " is of the tower of a vlm, and the model is a ", c.model.kind->name, "; leave it out");
  require(p.data && p.tensor && p.zero && p.recompute && c.train.microbatch,
          "parallel.vision.tensor is of a layout that is given; give parallel.data, tensor, zero, "
          "recompute and train.microbatch numbers, not \"auto\"");
  plan::check_degrees({.vision = *p.vision_tensor,
                       .language = *p.tensor,
                       .own_devices = p.placement == Placement::Own,
                       .sequence_parallel = p.sequence_parallel,
                       .usual_order = p.order == kDefaultOrder,
                       .chunks = p.chunks.value_or(1),
                       .schedule = p.schedule,
                       .accelerators = c.devices.accelerated(),
                       .emulated = c.devices.emulate.has_value(),
                       .owners = !c.edge.owners.empty() || c.edge.averages(),
                       .elastic = c.devices.transport == Transport::Tcp && c.train.elastic});
}

}  // namespace

bool has_tower(const Config& c) {
  return c.model.vision.layers > 0 && !c.model.kind->pairs;
}

void check_placement(const Config& c) {
  const ParallelConfig& p = c.parallel;
  if (p.placement == Placement::Even) {
    require(!p.vision_pipeline && !p.language_pipeline && !p.vision_data && !p.language_data &&
                !p.vision_tensor && !p.language_tensor,
            "parallel.vision and parallel.language say how many stages each has of its own; set "
            "parallel.placement = \"own\"");
    return;
  }
  require(p.placement == Placement::Own || (!p.vision_data && !p.language_data),
          "parallel.vision.data and parallel.language.data are numbers of replicas of modules on "
          "devices of their own; set parallel.placement = \"own\"");
  if (p.placement != Placement::Own) check_module_degrees(c);
  require(c.model.vision.layers > 0, "parallel.placement says where an encoder is, and a ",
          c.model.kind->name, " has none; leave it out");
  if (p.placement == Placement::Auto && !p.pipeline) return;  // the planner chooses both
  require(p.pipeline && !p.partition,
          "parallel.placement cuts the model into the stages of parallel.pipeline; give that a "
          "number, and leave parallel.partition out");
  if (p.placement == Placement::Shared)
    require(p.chunks.value_or(0) == 2,
            "parallel.placement \"shared\" puts a stage of the encoder and one of the language "
            "model on each device; set parallel.chunks = 2");
  if (p.placement != Placement::Own) return;
  require(p.vision_pipeline && *p.vision_pipeline < *p.pipeline,
          "parallel.placement \"own\" takes some of the ", *p.pipeline,
          " devices of parallel.pipeline for the encoder; set parallel.vision.pipeline to fewer "
          "than that");
  require(!p.language_pipeline || *p.language_pipeline + *p.vision_pipeline == *p.pipeline,
          "parallel.vision.pipeline ", *p.vision_pipeline, " and parallel.language.pipeline ",
          p.language_pipeline.value_or(0), " do not add up to parallel.pipeline ", *p.pipeline,
          "; change one of them");
  check_module_replicas(c);
  check_module_degrees(c);
}

void check_vision_grid(const Config& c) {
  const NumericsConfig& n = c.numerics;
  require(!n.vision_tensor_shards || has_tower(c), "numerics.vision.tensor_shards ",
          n.vision_tensor_shards.value_or(0), " is of the tower of a vlm, and the model is a ",
          c.model.kind->name, "; leave it out");
  require(!n.vision_tensor_shards || c.parallel.tensor, "numerics.vision.tensor_shards ",
          n.vision_tensor_shards.value_or(0),
          " is of a layout that is given; give parallel.tensor a number, not \"auto\"");
  if (!n.tensor_shards || !c.parallel.tensor) return;
  const std::int64_t degree = c.parallel.vision_tensor.value_or(*c.parallel.tensor);
  plan::check_shards("vision.tensor", n.vision_tensor_shards.value_or(*n.tensor_shards), degree);
}

}  // namespace cleave::train
