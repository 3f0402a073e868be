#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cleave/edge/outer.h"
#include "cleave/edge/owner.h"

namespace cleave::train {

struct Config;

/// A run whose devices belong to different owners.
struct EdgeConfig {
  std::vector<edge::Owner> owners;  ///< as [[edge.owner]] lists them
  bool central = false;             ///< one device plays them all

  // Averaging: clients train by themselves for a while, then their updates become one.
  std::int64_t sync_every = 0;  ///< local steps of a round, or epochs; 0: no averaging
  bool sync_epochs = false;     ///< it counts epochs of each client's data
  std::int64_t fragments = 1;   ///< of the model; a round averages one of them
  std::int64_t clients = 0;     ///< that share [data]; 0: those among the owners
  std::int64_t sample = 0;      ///< clients in each round; 0: all
  std::string partition = "iid";
  double alpha = 0.5;
  std::int64_t labels = 2;
  std::string outer = "mean";  ///< a name of edge::outer_kinds()
  std::optional<double> outer_lr;
  std::optional<double> outer_momentum;
  double proximal = 0;        ///< how strongly clients are held to the weights of all
  bool weigh_samples = true;  ///< a client counts for its sequences; else each for one
  bool fixed_sums = false;    ///< in fixed point, whoever comes first; else in client order
  bool keep_slots = false;    ///< of the clients' optimizers, from round to round
  bool in_order = false;      ///< a split run whose clients take turns at the server's layers
  /// How updates travel, or what goes from owner to owner in a split run: a name of codecs().
  std::string codec = "none";
  std::string codec_back = "none";  ///< of the gradients that come back in a split run
  double drop = 0;                  ///< chance of a client of a round not to answer
  std::int64_t quorum = 1;          ///< answers that a round needs
  bool secure = false;              ///< updates are masked, and the server sees their sum alone
  double clip = 0;                  ///< what an update is at most long; 0: as it is
  double noise = 0;                 ///< on the sum, over `clip`; 0: none
  double example_clip = 0;          ///< what the gradient of an example is at most long
  double example_noise = 0;         ///< on the sum over a step's examples, over it; 0: none
  double delta = 1e-5;
  double epsilon = 0;               ///< what all rounds may cost; 0: any
  std::int64_t faulty = 1;          ///< clients that robust rules let send anything
  std::vector<std::string> absent;  ///< "NAME FIRST-LAST": who answers in which rounds, from 1, not
  std::int64_t arrival = 0;         ///< shuffles the order in which clients answer; 0: client order

  /// The clients that are declared absent in a round, counted from 0; ascending, some twice.
  std::vector<int> absent_in(std::int64_t round) const;
  bool averages() const { return sync_every > 0; }
  /// Clients clip and noise what they learn from each example.
  bool by_example() const { return example_noise > 0; }
  /// All clients, and those of a round.
  int client_count() const;
  std::int64_t per_round() const { return sample == 0 ? client_count() : sample; }
  /// Clients bring data of their own.
  bool has_own_data() const;
  /// The numbers of `outer`, with what it takes by itself.
  edge::OuterHyper outer_hyper() const;

  /// The model is cut between clients and a server.
  bool is_split() const;
  /// Indices of the owners of this role, in order.
  std::vector<int> with_role(edge::Role role) const;

  friend bool operator==(const EdgeConfig&, const EdgeConfig&) = default;
};

using GivenKeys = std::set<std::string, std::less<>>;

/// What follows from the owners: the layout, the memory of their devices, where the data is. Throws
/// UserError if they make no layout, or if the config gives a key that contradicts them.
void derive_edge(const GivenKeys& given, Config& config);

/// Whether owners are on machines of their own, each with its data.
bool owners_are_apart(const Config& config);

/// Whether device 0 is one of the server's: over a network it has the files of the run.
bool server_comes_first(const Config& config);

/// plan::Layout::cuts, where clients cut the model at different places; empty: they share one cut.
std::vector<std::vector<int>> client_cuts(const Config& config);

/// [device] -> the owner that it belongs to; empty: there is nothing to tell apart.
std::vector<int> device_owners(const Config& config);

}  // namespace cleave::train
