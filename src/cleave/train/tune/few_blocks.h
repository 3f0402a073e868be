#pragma once

#include <vector>

#include "cleave/model/model_shape.h"
#include "cleave/plan/time/costs.h"
#include "cleave/spec/graph.h"

namespace cleave::train {

// Where the blocks of a model are alike, few of them are measured and stand for all.

/// Whether the blocks of each module are alike, and learn or pass gradients on alike.
bool has_alike_blocks(const Graph& model);

/// A model of the same kind with as few blocks as can stand for all.
ModelShape with_few_blocks(ModelShape model);

/// [part] of `all` from those of `few`, of which all but the first and the last block of a module
/// stand for every block between them; one stands for all of a model without modules.
std::vector<plan::StageCosts> costs_of_all_blocks(const std::vector<plan::StageCosts>& parts,
                                                  const ModelShape& few, const ModelShape& all);

}  // namespace cleave::train
