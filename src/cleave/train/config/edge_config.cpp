#include "cleave/train/config/edge_config.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "cleave/base/check.h"
#include "cleave/schedule/generators.h"
#include "cleave/train/config/config.h"

namespace cleave::train {
namespace {

using edge::Owner;
using edge::Role;

/// Larger than any memory: what an owner without a limit has beside others that have one.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 50;

void check_names(const EdgeConfig& edge) {
  std::set<std::string> names;
  for (const Owner& owner : edge.owners) {
    require(!owner.name.empty(), "an [[edge.owner]] has no name; give each one of its own");
    require(names.insert(owner.name).second, "two [[edge.owner]] are called \"", owner.name,
            "\"; give each a name of its own");
  }
}

const Owner& first_client(const EdgeConfig& edge) {
  return edge.owners[edge.with_role(Role::Client).front()];
}

void check_cuts(const Config& c) {
  const EdgeConfig& edge = c.edge;
  const auto servers = edge.with_role(Role::Server);
  require(servers.size() == 1, "there are ", servers.size(),
          " owners with role \"server\", and a split run has one; give it more devices instead");
  const Owner& first = first_client(edge);
  for (const int client : edge.with_role(Role::Client)) {
    const Owner& owner = edge.owners[client];
    require(owner.layers == first.layers, "owner ", owner.name, " and owner ", first.name,
            " have different layers; clients of one run share one cut");
    require(owner.holds_inputs, "owner ", owner.name,
            " is a client and does not hold \"inputs\"; a client is whose data is trained on");
    require(owner.holds_labels || edge.owners[servers[0]].holds_labels, "neither owner ",
            owner.name, " nor the server holds \"labels\"; say whose they are");
  }
}

/// Layers of every stage: down through the devices of a pipeline, and back up where the client has
/// the last ones too.
std::vector<std::int64_t> cut_layers(const Config& c, const Owner& client, std::int64_t servers) {
  const std::int64_t own = std::accumulate(client.layers.begin(), client.layers.end(), 0LL);
  const bool both_ends = client.layers.size() == 2;
  const std::int64_t stages = servers * (both_ends ? 2 : 1);
  const std::int64_t rest = c.model.layers - own;
  require(rest >= stages, "the client's layers leave ", rest, " of model.layers ", c.model.layers,
          " to the server, which has ", stages,
          both_ends ? " stages, twice its devices" : " stages", "; leave it at least one for each");
  std::vector<std::int64_t> layers = {client.layers[0]};
  for (std::int64_t i = 0; i < stages; ++i)
    layers.push_back(rest * (i + 1) / stages - rest * i / stages);
  if (both_ends) layers.push_back(client.layers[1]);
  return layers;
}

/// Sets `place` to what follows from the owners, unless the config says something else.
template <class T>
void settle(const GivenKeys& given, const char* key, T& place, const T& value) {
  require(!given.contains(key) || place == value, key,
          " does not follow from the owners of [edge], which fix it; leave it out");
  place = value;
}

void settle_schedule(const GivenKeys& given, bool both_ends, ParallelConfig& p) {
  using schedule::Fold;
  if (!given.contains("parallel.schedule")) p.schedule = both_ends ? "zbv" : "1f1b";
  require(p.schedule != "auto", "parallel.schedule is \"auto\", and a split run needs one by name");
  const schedule::Schedule& chosen = schedule::schedule_named(p.schedule);
  if (both_ends) {
    require(chosen.fold == Fold::V, "schedule ", p.schedule,
            " does not bring the last layers back to the client; take zbv, v-half, v-min or "
            "dualpipev");
    return;
  }
  require(chosen.chunks == 1, "schedule ", p.schedule,
          " has several stages on each device, and the client has the first layers only; take "
          "1f1b, gpipe, zb-h1 or zb-h2, or give it the last ones too, as in layers = [1, 1]");
}

void settle_memory(const GivenKeys& given, Config& c) {
  const auto limited = [](const Owner& owner) { return owner.memory > 0; };
  std::vector<std::int64_t> memory;
  if (std::ranges::any_of(c.edge.owners, limited)) {
    for (const int owner : device_owners(c))
      memory.push_back(limited(c.edge.owners[owner]) ? c.edge.owners[owner].memory : kNoLimit);
  }
  settle(given, "devices.memory", c.devices.memory, memory);
}

void settle_data(const GivenKeys& given, Config& c) {
  std::vector<data::DataPath> paths;
  for (const int client : c.edge.with_role(Role::Client))
    if (!c.edge.owners[client].data.empty()) paths.push_back({c.edge.owners[client].data, 1});
  if (paths.empty()) return;
  require(paths.size() == c.edge.with_role(Role::Client).size(),
          "some clients of [edge] have data and others have none; give it to each, or set "
          "data.path for all");
  settle(given, "data.path", c.data.path, paths);
}

/// Whatever the config says of a layout is that of the run on many devices.
void settle_central(std::int64_t clients, Config& c) {
  require(std::has_single_bit(static_cast<std::uint64_t>(*c.numerics.data_shards)),
          "edge.central plays ", clients,
          " clients on one device, and sums over replicas fold for 1, 2, 4, 8, … only; take such a "
          "number of clients");
  c.parallel = ParallelConfig{.recompute = c.parallel.recompute};
  c.devices.count = 1;
  if (c.devices.memory.size() > 1) c.devices.memory.clear();
}

void settle_split(const GivenKeys& given, std::int64_t clients, Config& c) {
  ParallelConfig& p = c.parallel;
  const Owner& client = first_client(c.edge);
  const bool both_ends = client.layers.size() == 2;
  const std::int64_t servers = c.edge.owners[c.edge.with_role(Role::Server)[0]].devices;
  settle(given, "parallel.pipeline", p.pipeline, Auto(1 + servers));
  settle(given, "parallel.data", p.data, Auto(clients));
  settle(given, "parallel.chunks", p.chunks, Auto(both_ends ? 2 : 1));
  settle(given, "parallel.partition", p.partition, Partition(cut_layers(c, client, servers)));
  settle_schedule(given, both_ends, p);
  settle_memory(given, c);
}

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
  require(!e.secure || e.per_round() >= 3, "edge.secure is true, and a round has ", e.per_round(),
          " clients; it needs 3, because two know each other's from the sum");
  require(e.quorum <= e.per_round(), "edge.quorum is ", e.quorum, ", and a round has ",
          e.per_round(), " clients; lower it");
  require(e.noise == 0 || e.clip > 0, "edge.noise is ", e.noise,
          ", and edge.clip is not set, so nothing bounds what it hides; set it");
  require(e.epsilon == 0 || e.noise > 0, "edge.epsilon is ", e.epsilon,
          ", and without edge.noise no ε is ever reached; set it");
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

struct Absence {
  int client = 0;
  std::int64_t first = 0;  ///< round, from 1
  std::int64_t last = 0;
};

/// "clinic-b 3-7", "clinic-b 3", or "clinic-b 3-" to the end; a client of edge.clients is its
/// number.
Absence read_absence(const EdgeConfig& e, const std::string& text) {
  const std::size_t space = text.find_last_of(' ');
  const std::string name = text.substr(0, space);
  Absence absence{.client = -1};
  const std::vector<int> clients = e.with_role(Role::Client);
  for (int client = 0; client < e.client_count(); ++client)
    if (name == (clients.empty() ? std::to_string(client) : e.owners[clients[client]].name))
      absence.client = client;
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

/// What clients on machines of their own cannot do yet.
void check_apart(const EdgeConfig& e) {
  require(!e.secure,
          "edge.secure is true, and masks are agreed on inside one process; leave it out, or use "
          "cleave train");
  require(!e.keep_slots,
          "edge.keep_slots is true, and what clients that join keep is not saved; leave it out");
  require(e.codec == "none", "edge.codec is \"", e.codec,
          "\", and clients that join send their weights in f32; leave it out");
}

void check_averaging(const Config& c) {
  const EdgeConfig& e = c.edge;
  const edge::OuterKind& outer = *edge::find_outer(e.outer);
  require(!e.is_split(), "edge.sync_every is ", e.sync_every,
          ", and clients have layers; a run is split or averaged, so leave one of them out");
  require(!e.central,
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
  if (owners_are_apart(c)) check_apart(e);
}

void check_given(const GivenKeys& given) {
  for (const std::string& key : given) {
    const bool other = key == "edge.owner" || key == "edge.central" || key == "edge.sync_every";
    require(other || !key.starts_with("edge."), key,
            " is set, and edge.sync_every is not, so nothing is averaged; set it, or leave ", key,
            " out");
  }
}

}  // namespace

int EdgeConfig::client_count() const {
  return owners.empty() ? static_cast<int>(clients)
                        : static_cast<int>(with_role(Role::Client).size());
}

bool EdgeConfig::is_absent(int client, std::int64_t round) const {
  return std::ranges::any_of(absent, [&](const std::string& text) {
    const Absence absence = read_absence(*this, text);
    return absence.client == client && round + 1 >= absence.first && round + 1 <= absence.last;
  });
}

bool EdgeConfig::has_own_data() const {
  return std::ranges::any_of(owners, [](const Owner& owner) { return !owner.data.empty(); });
}

edge::OuterHyper EdgeConfig::outer_hyper() const {
  edge::OuterHyper hyper = edge::find_outer(outer)->usual;
  hyper.lr = outer_lr.value_or(hyper.lr);
  hyper.momentum = outer_momentum.value_or(hyper.momentum);
  return hyper;
}

bool EdgeConfig::is_split() const {
  return std::ranges::any_of(owners, [](const Owner& owner) { return !owner.layers.empty(); });
}

std::vector<int> EdgeConfig::with_role(edge::Role role) const {
  std::vector<int> found;
  for (int i = 0; i < std::ssize(owners); ++i)
    if (owners[i].role == role) found.push_back(i);
  return found;
}

void derive_edge(const GivenKeys& given, Config& c) {
  if (!c.edge.owners.empty()) check_names(c.edge);
  if (c.edge.averages()) {
    if (c.edge.noise > 0 && !given.contains("edge.weights")) c.edge.weigh_samples = false;
    check_averaging(c);
    return settle_data(given, c);
  }
  check_given(given);
  if (c.edge.owners.empty()) {
    require(!c.edge.central,
            "edge.central is true, and there are no owners to be played on one "
            "device; add [[edge.owner]], or leave it out");
    return;
  }
  const auto clients = std::ssize(c.edge.with_role(Role::Client));
  require(clients > 0, "no [[edge.owner]] has role \"client\"; add whose data is trained on");
  require(c.edge.is_split(),
          "no client of [edge] has layers, so nothing is split; say how many "
          "are its own, as in layers = [1, 1], or average what clients train "
          "with edge.sync_every");
  check_cuts(c);
  require(c.devices.transport != Transport::Mpi,
          "devices.transport is \"mpi\", and owners are threads of one process, or join one with "
          "cleave serve; leave it out");
  settle(given, "parallel.tensor", c.parallel.tensor, Auto(1));
  if (!given.contains("numerics.data_shards")) c.numerics.data_shards = clients;
  settle_data(given, c);
  if (c.edge.central) return settle_central(clients, c);
  settle_split(given, clients, c);
}

bool owners_are_apart(const Config& c) {
  return c.devices.transport == Transport::Tcp && !c.edge.central && c.edge.has_own_data();
}

bool server_comes_first(const Config& c) {
  return c.edge.is_split() && !c.edge.central && c.devices.transport == Transport::Tcp;
}

std::vector<int> device_owners(const Config& c) {
  if (!c.edge.is_split() || c.edge.central) return {};
  const int server = c.edge.with_role(Role::Server)[0];
  std::vector<int> owners;
  const Mesh mesh{.data = static_cast<int>(*c.parallel.data),
                  .pipeline = static_cast<int>(*c.parallel.pipeline),
                  .order = c.parallel.order,
                  .last_first = server_comes_first(c)};
  const std::vector<int> clients = c.edge.with_role(Role::Client);
  for (int device = 0; device < mesh.devices(); ++device) {
    const int place = mesh.place_of(device);
    owners.push_back(place % mesh.pipeline == 0 ? clients[place / mesh.pipeline] : server);
  }
  return owners;
}

}  // namespace cleave::train
