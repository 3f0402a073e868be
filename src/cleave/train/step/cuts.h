#pragma once

#include <set>
#include <string>

#include "cleave/spec/graph.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// How many segments `client`, an owner of `config` with layers of its own, has before the first
/// that is the server's.
int segments_before_cut(const Config& config, const Graph& model, int client);

/// Codes the edges of a model at which it is cut between clients and a server, as edge.codec says;
/// also where one device plays all of them.
void code_cuts(const Config& config, Graph& model);

/// What the server has of a split model.
struct ServerPart {
  std::set<std::string> parameters;  ///< by the names that layers know
  std::set<std::string> tensors;     ///< by those that checkpoints know
};

/// Empty unless clients take turns at one copy of it (edge.in_order). Throws UserError if a weight
/// has one use there and another with clients.
ServerPart shared_part(const Config& config, const Graph& model);

}  // namespace cleave::train
