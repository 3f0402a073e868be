#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/spec/layer_spec.h"

namespace cleave::plan {

/// The pieces of memory that a stage's tensors live in, by lifetime. All but Work exist once per
/// microbatch in flight and are buffers of the program.
enum class Region : std::uint8_t {
  None,            ///< no such tensor
  Input,           ///< x of the stage, as it arrives
  Output,          ///< y of the stage, as it leaves
  OutputGradient,  ///< dy of the stage, as it arrives
  InputGradient,   ///< dx of the stage, as it leaves
  KeptForInput,    ///< written by F, last read by I
  KeptForWeight,   ///< written by F, last read by W
  InputKept,       ///< written by I, last read by W
  Recomputed,      ///< written by R, last read by W
  Work,            ///< used within one instruction
  Port,            ///< wherever a tensor arrives that is read besides x
};
inline constexpr int kRegions = 10;  ///< a port is none: each has an address of its own

struct Place {
  Region region = Region::None;
  std::int64_t offset = 0;  ///< of a port: 2 x its number among the reads of all layers
};

/// Places that differ with how the backward runs: I and W as instructions of their own, or fused
/// (B), where each layer's W follows its I at once and nothing needs to be kept between them.
struct BackwardPlaces {
  Place dy;
  Place dx;
  Place add;  ///< a gradient that I adds into dx: the residual branch that left at this layer's x
  std::vector<Place> kept_by_input;
};

/// Places of a forward pass.
struct ForwardPlaces {
  Place x;
  Place y;
  Place skip;
  std::vector<Place> reads;
  std::vector<Place> kept_by_forward;
};

/// As I and W find them; F and R too, unless StageLayout::first says otherwise for F.
struct LayerPlaces {
  Place x;
  Place y;
  Place skip;
  std::vector<Place> reads;
  std::vector<Place> kept_by_forward;
  BackwardPlaces split;
  BackwardPlaces fused;
};

/// Where every tensor of a stage is, for one microbatch.
struct StageLayout {
  std::vector<LayerPlaces> layers;
  std::vector<ForwardPlaces> first;  ///< [layer] for F, where R follows; empty: as in `layers`
  std::vector<int> again;            ///< the layers that R runs
  std::array<std::int64_t, kRegions> bytes{};  ///< of each region, Work excepted
  std::int64_t forward_work = 0;
  std::int64_t input_work = 0;
  std::int64_t fused_work = 0;
  Until input_until = Until::Forward;   ///< who reads Input last
  Until gradient_until = Until::Input;  ///< who reads OutputGradient last

  std::int64_t bytes_of(Region region) const { return bytes[static_cast<int>(region)]; }
};

/// How a piece of a model is joined to the others. Where x does not arrive it is loaded from the
/// data, and no gradient leaves; where y does not leave it is a result, and no gradient arrives.
struct Borders {
  bool x_arrives = false;
  bool y_leaves = false;
  bool backward = true;   ///< false: neither this piece nor one before it learns
  bool dx_leaves = true;  ///< false: nothing before x learns, so the gradient of x ends here
};
inline constexpr Borders kWithin = {.x_arrives = true, .y_leaves = true};

/// What F keeps of a piece. Keep::Inputs: its x alone; R then runs all layers whose results I and W
/// read. Keep::Costly: all but the y of cheap layers, which R computes again.
enum class Keep : std::uint8_t { Everything, Costly, Inputs };
/// Lays out consecutive segments of a model as one piece. `arrives` [read of all layers]: it comes
/// from another segment, and so has a place of its own; empty: all are loaded from the data.
StageLayout layout_stage(std::span<const SegmentSpec> segments, Borders borders,
                         Keep keep = Keep::Everything, std::span<const char> arrives = {});

}  // namespace cleave::plan
