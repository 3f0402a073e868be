#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/plan/tune/partition_search.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// What is computed again of the block of a part, as plan::parts_of() numbers them; what comes
/// before the blocks and after them is never computed again.
schedule::Recompute recompute_of_part(const Config& config, std::size_t part);

/// [part] about how many bytes its state takes on a device, what it keeps of a microbatch, and
/// which gradients it asks for; times are left open. `placement`, [stage][replica], tells whether
/// both ends of the model share a device.
std::vector<plan::SegmentWork> part_memory(const Config& config,
                                           const std::vector<std::vector<int>>& placement);

/// What passes between two blocks, for one microbatch.
std::int64_t bytes_between_blocks(const Config& config);

/// False if what one block keeps of one microbatch is more than any device has: no cut, no ZeRO and
/// no recompute helps then, and measuring it might not fit either.
bool holds_a_block(const Config& config);

}  // namespace cleave::train
