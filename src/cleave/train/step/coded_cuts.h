#pragma once

#include "cleave/spec/graph.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// Codes the edges of a model at which it is cut between clients and a server, as edge.codec says;
/// also where one device plays all of them.
void code_cuts(const Config& config, Graph& model);

}  // namespace cleave::train
