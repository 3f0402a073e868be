#include <algorithm>
#include <charconv>

#include "cleave/base/check.h"
#include "cleave/train/config/config.h"
#include "cleave/train/config/edge_rules.h"

// Clients that train by themselves and average what they have learned: what goes with what.
namespace cleave::train {

using edge::Role;

namespace {

/// What goes with masks, noise and codecs.
void check_privacy(const Config& c) {
  const EdgeConfig& e = c.edge;
  const bool whole = c.parallel.tensor == 1 && c.parallel.zero == 0;
  const bool robust = edge::find_outer(e.outer)->robust;
  require(!e.secure || !robust, "edge.outer is \"", e.outer,
          "\", which looks at every update, and edge.secure shows the sum alone; leave one of them "
          "out");
  require(!e.secure || e.fixed_sums,
          "edge.secure is true, and masks are gone only from sums in fixed point; set edge.sums to "
          "\"fixed\"");
  require(!e.secure || e.codec == "none", "edge.codec is \"", e.codec,
          "\", and masked numbers cannot be made smaller; leave it out, or edge.secure");
  require(e.codec == e.codec_back, "edge.codec is \"", e.codec, "\" forward and \"", e.codec_back,
          "\" backward, and updates go one way; give one codec");
  require(!e.secure || e.per_round() >= 3, "edge.secure is true, and a round has ", e.per_round(),
          " clients; it needs 3, because two know each other's from the sum");
  require(e.quorum <= e.per_round(), "edge.quorum is ", e.quorum, ", and a round has ",
          e.per_round(), " clients; lower it");
  require(e.noise == 0 || e.clip > 0, "edge.noise is ", e.noise,
          ", and edge.clip is not set, so nothing bounds what it hides; set it");
  require(e.epsilon == 0 || e.noise > 0 || e.by_example(), "edge.epsilon is ", e.epsilon,
          ", and without edge.noise or edge.example_noise no ε is ever reached; set one of them");
  require(e.noise == 0 || !e.weigh_samples,
          "edge.weights is \"samples\", and with edge.noise how many a client has must not show; "
          "set it to \"equal\"");
  require(e.clip == 0 || !robust, "edge.outer is \"", e.outer,
          "\", and edge.clip is for sums; leave one of them out");
  require(whole || !robust || edge::find_outer(e.outer)->middle != nullptr, "edge.outer is \"",
          e.outer,
          "\", which compares whole updates; leave it out, or parallel.tensor and "
          "parallel.zero");
  require(whole || (e.codec == "none" && e.clip == 0),
          "edge.codec and edge.clip need whole tensors on a device; leave them out, or "
          "parallel.tensor and parallel.zero");
}

/// Rounds that average a part of the model each.
void check_fragments(const EdgeConfig& e) {
  if (e.fragments == 1) return;
  const auto refuse = [&](bool given, const char* key, const char* why) {
    require(!given, key, " does not go with edge.fragments ", e.fragments, ", ", why,
            "; leave one of them out");
  };
  refuse(e.in_order, "edge.in_order", "whose rounds end with all of the clients' layers averaged");
  refuse(e.clip > 0 || e.noise > 0, "edge.clip", "since it is for whole updates");
  refuse(edge::find_outer(e.outer)->robust, "edge.outer", "since it compares whole updates");
}

/// Clients that take turns at one copy of the server's layers.
void check_in_order(const Config& c) {
  const EdgeConfig& e = c.edge;
  const auto refuse = [](bool given, const char* key, const char* why) {
    require(!given, key, " does not go with edge.in_order, ", why, "; leave one of them out");
  };
  require(e.is_split(),
          "edge.in_order is true, and no client has layers, so that there is nothing to take turns "
          "at; say how many are its own, as in layers = [1, 1]");
  require(!e.sync_epochs,
          "edge.sync_every is in epochs, and clients in order take turns of equally "
          "many steps; give a number of steps");
  refuse(e.codec != "none" || e.codec_back != "none", "edge.codec",
         "where both cuts and updates could be meant");
  refuse(e.secure, "edge.secure", "whose server sees the activations of one client at a time");
  refuse(e.clip > 0 || e.noise > 0, "edge.clip", "since what the server learns is not clipped");
  refuse(edge::find_outer(e.outer)->robust, "edge.outer",
         "whose server follows every client, whatever a rule makes of the others");
  refuse(e.arrival != 0, "edge.arrival", "in which clients come in the order of their numbers");
  require(c.devices.transport != Transport::Mpi,
          "devices.transport is \"mpi\", and clients that take turns at the server's layers are "
          "played by one process, or join one with cleave serve; leave it out");
}

struct Absence {
  int client = 0;
  std::int64_t first = 0;  ///< round, from 1
  std::int64_t last = 0;
};

/// The number of the client that absences call `name`; -1 if there is none.
int client_named(const EdgeConfig& e, const std::string& name) {
  const std::vector<int> clients = e.with_role(Role::Client);
  for (int client = 0; client < std::ssize(clients); ++client)
    if (name == e.owners[static_cast<std::size_t>(clients[client])].name) return client;
  int number = -1;
  std::from_chars(name.data(), name.data() + name.size(), number);
  const bool counts = clients.empty() && number >= 0 && number < e.client_count();
  return counts && name == std::to_string(number) ? number : -1;
}

/// "clinic-b 3-7", "clinic-b 3", or "clinic-b 3-" to the end; a client of edge.clients is its
/// number.
Absence read_absence(const EdgeConfig& e, const std::string& text) {
  const std::size_t space = text.find_last_of(' ');
  Absence absence{.client = client_named(e, text.substr(0, space))};
  const std::string rounds = space == std::string::npos ? "" : text.substr(space + 1);
  const std::size_t dash = std::min(rounds.find('-'), rounds.size());
  const auto number = [&](const std::string& digits, std::int64_t otherwise) {
    const bool sound = digits.find_first_not_of("0123456789") == std::string::npos;
    return digits.empty() ? otherwise : sound && digits.size() < 10 ? std::stoll(digits) : 0;
  };
  absence.first = number(rounds.substr(0, dash), 0);
  absence.last = dash == rounds.size() ? absence.first
                                       : number(rounds.substr(dash + 1), std::int64_t{1} << 40);
  require(absence.client >= 0 && absence.first > 0 && absence.last >= absence.first,
          "edge.absent has \"", text,
          "\"; it must be a client and rounds from 1, such as \"clinic-b 3-7\" or \"clinic-b 3-\"");
  return absence;
}

}  // namespace

void check_averaging(const Config& c) {
  const EdgeConfig& e = c.edge;
  const edge::OuterKind& outer = *edge::find_outer(e.outer);
  if (e.in_order) check_in_order(c);
  check_fragments(e);
  require(!e.is_split() || e.in_order, "edge.sync_every is ", e.sync_every,
          ", and clients have layers; a run is split or averaged, so leave one of them out, or let "
          "clients take turns at the server's layers with edge.in_order");
  require(!e.central || e.in_order,
          "edge.central is true, and averages of clients are not the weights of one "
          "device; leave it out");
  require(e.client_count() > 0, "edge.sync_every is ", e.sync_every,
          ", and there are no clients; set edge.clients, or list [[edge.owner]] tables");
  require(e.clients == 0 || e.clients == e.client_count(), "edge.clients is ", e.clients,
          ", and [[edge.owner]] lists ", e.client_count(), "; leave one of them out");
  require(e.sample <= e.client_count(), "edge.sample is ", e.sample, ", and there are ",
          e.client_count(), " clients; sample fewer");
  require(!e.outer_momentum || outer.momentum, "edge.outer_momentum is set, and edge.outer ",
          e.outer, " has none; leave it out, or take momentum, nesterov, adam or yogi");
  require(!(outer.robust && e.fixed_sums), "edge.sums is \"fixed\", and edge.outer ", e.outer,
          " adds nothing up; leave it out");
  const auto fewest = outer.robust ? outer.fewest(static_cast<std::size_t>(e.faulty)) : 0;
  require(e.per_round() >= static_cast<std::int64_t>(fewest), "edge.outer is \"", e.outer,
          "\", and with edge.faulty ", e.faulty, " a round needs ", fewest, " clients, not ",
          e.per_round(), "; lower edge.faulty, or take more clients");
  for (const std::string& text : e.absent) read_absence(e, text);
  require(e.arrival == 0 || e.fixed_sums || outer.robust, "edge.arrival is ", e.arrival,
          ", and sums in the order of clients do not look at it; set edge.sums to \"fixed\"");
  require(c.train.skip_nonfinite == 0, "train.skip_nonfinite is ", c.train.skip_nonfinite,
          ", and a round has no step to leave out; leave it out");
  require(!c.devices.emulate,
          "devices.emulate sleeps, and rounds need clients that train; leave "
          "one of them out");
  check_privacy(c);
  require(
      !e.has_own_data() || c.devices.transport != Transport::Mpi,
      "devices.transport is \"mpi\", and owners with data of their own are played by one process, "
      "or join one with cleave serve; leave it out");
}

std::vector<int> EdgeConfig::absent_in(std::int64_t round) const {
  std::vector<int> clients;
  for (const std::string& text : absent) {
    const Absence absence = read_absence(*this, text);
    if (round + 1 >= absence.first && round + 1 <= absence.last) clients.push_back(absence.client);
  }
  std::ranges::sort(clients);
  return clients;
}

}  // namespace cleave::train
