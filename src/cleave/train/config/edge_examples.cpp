#include "cleave/base/check.h"
#include "cleave/train/config/config.h"
#include "cleave/train/config/edge_rules.h"

// Clients that clip and noise what they learn from each example: what goes with that.
namespace cleave::train {

using edge::Role;

void refuse_split_examples(const EdgeConfig& edge) {
  if (!edge.is_split() || (edge.example_noise == 0 && edge.example_clip == 0)) return;
  const auto clients = edge.with_role(Role::Client), servers = edge.with_role(Role::Server);
  const std::string server = servers.empty() ? "a server" : edge.owners[servers[0]].name;
  throw UserError(detail::concat(
      "edge.example_clip bounds the whole gradient of an example, and layers that it goes through "
      "are of two owners, ",
      edge.owners[clients[0]].name, " and ", server,
      ", neither of whom has all of it; leave it out, or let clients have the whole model, with "
      "edge.sync_every and without layers"));
}

void derive_examples(const GivenKeys& given, Config& c) {
  const EdgeConfig& e = c.edge;
  refuse_split_examples(e);
  require(e.example_noise == 0 || e.example_clip > 0, "edge.example_noise is ", e.example_noise,
          ", and edge.example_clip is not set, so nothing bounds what it hides; set it");
  require(e.example_clip == 0 || e.example_noise > 0, "edge.example_clip is ", e.example_clip,
          ", and without edge.example_noise nothing is hidden; set it, or clip batches with "
          "train.clip");
  if (!e.by_example()) return;
  require(e.noise == 0,
          "edge.noise hides clients and edge.example_noise examples, and their ε are "
          "of two kinds; leave one of them out");
  require(!given.contains("train.clip") || c.train.clip == 0, "train.clip is ", c.train.clip,
          ", and edge.example_clip bounds the gradient of every example; leave it out");
  require(!given.contains("train.microbatch") || c.train.microbatch == 1, "train.microbatch is ",
          c.train.microbatch.value_or(0),
          ", and with edge.example_noise an example is a microbatch; leave it out");
  require(c.parallel.tensor == 1 && c.parallel.zero == 0 && c.parallel.data == 1,
          "edge.example_noise needs whole gradients of one example on the devices of a pipeline; "
          "leave parallel.tensor, parallel.zero and parallel.data out");
  require(!c.model.kind->pairs, "edge.example_noise needs a loss of each example, and that of ",
          c.model.kind->name, " is over all of a step; leave it out");
  c.train.clip = 0;
  c.train.microbatch = 1;
  c.numerics.data_shards = 1;
}

}  // namespace cleave::train
