#include "cleave/engine/compile/module_shares.h"

#include <algorithm>
#include <map>

#include "cleave/base/check.h"
#include "cleave/engine/compile/placement.h"
#include "cleave/plan/tune/layout_check.h"
#include "cleave/shard/graph_share.h"

namespace cleave::engine {
namespace {

/// The tensor shards of a module's layers, and the devices that share them.
struct ModuleShards {
  int shards = 1;
  int devices = 1;

  friend bool operator==(const ModuleShards&, const ModuleShards&) = default;
};

ModuleShards last_module(const CompileOptions& options) {
  const int devices = options.layout.tensor;
  return {options.tensor_shards == 0 ? devices : options.tensor_shards, devices};
}

ModuleShards encoders(const CompileOptions& options) {
  const Layout& layout = options.layout;
  const int devices = layout.encoder_tensor == 0 ? layout.tensor : layout.encoder_tensor;
  const int usual = options.tensor_shards == 0 ? devices : options.tensor_shards;
  return {options.encoder_tensor_shards == 0 ? usual : options.encoder_tensor_shards, devices};
}

/// [segment]
std::vector<ModuleShards> shards_of(const Graph& model, const CompileOptions& options) {
  std::vector<ModuleShards> shards(model.segments.size(), last_module(options));
  std::fill_n(shards.begin(), encoder_segments(model), encoders(options));
  return shards;
}

/// Tensor shards would cut what an update needs as one.
void check_whole_updates(const SegmentSpec& segment, const CompileOptions& options, int shards) {
  if (shards == 1 || !options.optimizer->whole) return;
  for (const LayerSpec& layer : segment.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      require(!parameter.whole_pieces, "train.optimizer ", options.optimizer->name,
              " updates whole matrices, and ", shards, " tensor shards cut ", parameter.name,
              "; use parallel.tensor 1 with numerics.tensor_shards 1, or another optimizer");
    }
  }
}

/// Both uses of a weight are cut alike.
void check_ties_of_modules(const Graph& model, const std::vector<ModuleShards>& shards) {
  std::map<std::string, ModuleShards> owners;
  for (std::size_t s = 0; s < model.segments.size(); ++s) {
    for (const LayerSpec& layer : model.segments[s].layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        owners.emplace(parameter.name, shards[s]);
        const auto owner = owners.find(parameter.tied_to);
        require(owner == owners.end() || owner->second == shards[s], "parameter ", parameter.name,
                " is tied to ", parameter.tied_to,
                " of a module with another tensor degree or other tensor shards; give both modules "
                "the same, or do not tie them");
      }
    }
  }
}

}  // namespace

void check_module_degrees(const CompileOptions& options) {
  const Layout& layout = options.layout;
  if (!layout.degrees_differ()) return;
  const auto is_accelerator = [](const std::string& kind) { return kind != "cpu"; };
  plan::check_degrees({.vision = layout.encoder_tensor,
                       .language = layout.tensor,
                       .own_devices = layout.placement == Placement::Own,
                       .sequence_parallel = layout.sequence_parallel,
                       .usual_order = layout.order == kDefaultOrder && !layout.last_first,
                       .chunks = layout.chunks,
                       .schedule = layout.schedule,
                       .accelerators = std::ranges::any_of(options.device_kinds, is_accelerator)});
}

void check_emulated_degrees(const Layout& layout) {
  if (!layout.degrees_differ()) return;
  plan::check_degrees(
      {.vision = layout.encoder_tensor, .language = layout.tensor, .emulated = true});
}

std::vector<Graph> shares_of(const Graph& model, const CompileOptions& options, RowsOf rows) {
  const std::vector<ModuleShards> shards = shards_of(model, options);
  plan::check_shards("tensor", last_module(options).shards, last_module(options).devices);
  plan::check_shards("vision.tensor", encoders(options).shards, encoders(options).devices);
  for (std::size_t s = 0; s < shards.size(); ++s)
    check_whole_updates(model.segments[s], options, shards[s].shards);
  check_ties_of_modules(model, shards);
  if (std::ranges::all_of(shards, [](const ModuleShards& one) { return one.shards == 1; }))
    return {model};
  std::vector<Graph> shares;
  const int most = std::ranges::max(shards, {}, &ModuleShards::devices).devices;
  for (int number = 0; number < most; ++number) {
    std::vector<TensorShare> of_segments;
    for (const ModuleShards& module : shards)
      of_segments.push_back({.shards = module.shards,
                             .devices = module.devices,
                             .rank = number < module.devices ? number : 0,
                             .sequence_parallel = options.layout.sequence_parallel,
                             .uneven = rows == RowsOf::FewerItems});
    shares.push_back(shard::share_by_segment(model, of_segments, options.kinds.traits()));
    give_slots(shares.back().segments, *options.optimizer, options.hyper);
  }
  return shares;
}

}  // namespace cleave::engine
