#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cleave/comm/transport.h"
#include "cleave/engine/stage/gradient_sync.h"
#include "cleave/engine/stage/stage.h"
#include "cleave/schedule/program.h"
#include "cleave/spec/mesh.h"

namespace cleave::engine {

struct CompiledStep;

/// What planned_traffic is about: one device at its place in the program.
struct TrafficParts {
  const schedule::Program& program;
  const Mesh& mesh;
  std::span<const Stage* const> stages;  ///< all of the program, bound or not
  std::span<const std::string> tie_names;
  ShardFold fold;
  std::int64_t pieces = 0;  ///< of the model
  int place = 0;
  int device = 0;   ///< of the run
  int devices = 1;  ///< … that there are
  /// How many items of optional inputs a microbatch of this device has; empty: all there is room
  /// for.
  std::function<std::int64_t(int microbatch)> items = {};
};

/// Of a device of `step` in one of its programs. All of them must outlive it.
TrafficParts traffic_parts(const CompiledStep& step, const schedule::Program& program,
                           std::span<const Stage* const> stages, int device);

/// Bytes that a device sends in one step, by what they are for: over edges, to its replicas, to the
/// devices at its place, and to all for NORM. What came to a place in slices is gathered there.
comm::Sent planned_traffic(const TrafficParts& parts);

/// Of planned_traffic, what layers exchange with the devices at its place: all that depends on how
/// many items microbatches have. Stages elsewhere may be null.
comm::Sent layer_traffic(const TrafficParts& parts);

/// [instruction of its list] bytes that it sends by sums, gathering and NORM, but no messages.
std::vector<std::int64_t> planned_collectives(const TrafficParts& parts);

/// The same of an emulated device: its messages, and whether to stop in NORM.
comm::Sent emulated_traffic(const schedule::Program& program, PlaceId place, DeviceId device,
                            int devices);

}  // namespace cleave::engine
