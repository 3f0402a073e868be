#pragma once

#include <string_view>
#include <vector>

#include "cleave/schedule/generators/generator.h"

namespace cleave::schedule {

/// 1F1B over chunks, by rounds of so many microbatches, the largest first: a device takes a round
/// through chunk 0, the same round through chunk 1, and so on, then the next round; backwards take
/// the same turns, last chunk first. Device d of p runs 2(p - 1 - d) + (chunks - 1) rounds[0]
/// forwards ahead.
Program in_rounds(std::string_view name, const PipelineShape& shape,
                  const std::vector<int>& rounds);

}  // namespace cleave::schedule
