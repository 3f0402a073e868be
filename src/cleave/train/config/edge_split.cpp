#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "cleave/base/check.h"
#include "cleave/base/codec.h"
#include "cleave/schedule/generators.h"
#include "cleave/train/config/config.h"
#include "cleave/train/config/edge_rules.h"

// A model that is cut between clients and a server: what their layers and devices make of
// [parallel].
namespace cleave::train {

using edge::Owner;
using edge::Role;

namespace {

/// Larger than any memory: what an owner without a limit has beside others that have one.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 50;

const Owner& first_client(const EdgeConfig& edge) {
  return edge.owners[edge.with_role(Role::Client).front()];
}

std::string_view describe_ends(const Owner& client) {
  return client.layers.empty()       ? "no layers"
         : client.layers.size() == 1 ? "the first layers only"
                                     : "layers at both ends";
}

void check_cuts(const Config& c) {
  const EdgeConfig& edge = c.edge;
  const auto servers = edge.with_role(Role::Server);
  require(servers.size() == 1, "there are ", servers.size(),
          " owners with role \"server\", and a split run has one; give it more devices instead");
  const Owner& first = first_client(edge);
  for (const int client : edge.with_role(Role::Client)) {
    const Owner& owner = edge.owners[client];
    require(owner.layers.size() == first.layers.size(), "owner ", first.name, " has ",
            describe_ends(first), ", and owner ", owner.name, " ", describe_ends(owner),
            "; clients may have different numbers of layers, but all at the same ends");
    require(owner.holds_inputs, "owner ", owner.name,
            " is a client and does not hold \"inputs\"; a client is whose data is trained on");
    require(owner.holds_labels || edge.owners[servers[0]].holds_labels, "neither owner ",
            owner.name, " nor the server holds \"labels\"; say whose they are");
  }
}

void check_labels_stay(const Config& c) {
  require(!server_comes_first(c) || first_client(c.edge).layers.size() > 1, "owner ",
          first_client(c.edge).name,
          " has the first layers only, and over a network nobody but the owner has the labels that "
          "the server's loss would need; give it the last ones too, as in layers = [1, 1], or run "
          "all owners on threads with cleave train");
}

/// What is left out of an activation is missing from this microbatch, whatever a later one brings.
void check_codecs(const EdgeConfig& edge) {
  for (const std::string& name : {edge.codec, edge.codec_back})
    require(!find_codec(name)->keeps_error, "edge.codec is \"", name,
            "\", which leaves numbers out and adds them to the next update, and a split run sends "
            "activations; take \"bf16\", \"int8\" or \"int4\"");
}

bool has_one_cut(const EdgeConfig& edge) {
  const auto clients = edge.with_role(Role::Client);
  return std::ranges::all_of(
      clients, [&](int client) { return edge.owners[client].layers == first_client(edge).layers; });
}

/// Layers of every stage: down through the devices of a pipeline, and back up where the client has
/// the last ones too.
std::vector<std::int64_t> cut_layers(const Config& c, const Owner& client, std::int64_t servers) {
  const std::int64_t own = std::accumulate(client.layers.begin(), client.layers.end(), 0LL);
  const bool both_ends = client.layers.size() == 2;
  const std::int64_t stages = servers * (both_ends ? 2 : 1);
  const std::int64_t rest = c.model.layers - own;
  const std::string whose =
      has_one_cut(c.edge) ? "the client's layers" : detail::concat("the layers of ", client.name);
  require(rest >= stages, whose, " leave ", rest, " of model.layers ", c.model.layers,
          " to the server, which has ", stages,
          both_ends ? " stages, twice its devices" : " stages", "; leave it at least one for each");
  std::vector<std::int64_t> layers = {client.layers[0]};
  for (std::int64_t i = 0; i < stages; ++i)
    layers.push_back(rest * (i + 1) / stages - rest * i / stages);
  if (both_ends) layers.push_back(client.layers[1]);
  return layers;
}

/// [replica] after how many layers each of its stages but the last ends.
std::vector<std::vector<std::int64_t>> ends_of_stages(const Config& c) {
  const std::int64_t servers = c.edge.owners[c.edge.with_role(Role::Server)[0]].devices;
  std::vector<std::vector<std::int64_t>> ends;
  for (const int client : c.edge.with_role(Role::Client)) {
    const std::vector<std::int64_t> layers = cut_layers(c, c.edge.owners[client], servers);
    auto& own = ends.emplace_back(layers.size() - 1);
    std::partial_sum(layers.begin(), layers.end() - 1, own.begin());
  }
  return ends;
}

/// Where some replica's stages end: the common refinement of all cuts.
std::set<std::int64_t> all_ends(const std::vector<std::vector<std::int64_t>>& ends) {
  std::set<std::int64_t> all;
  for (const auto& own : ends) all.insert(own.begin(), own.end());
  return all;
}

std::vector<std::int64_t> refined_layers(const Config& c) {
  std::vector<std::int64_t> layers;
  std::int64_t before = 0;
  for (const std::int64_t end : all_ends(ends_of_stages(c))) {
    layers.push_back(end - before);
    before = end;
  }
  layers.push_back(c.model.layers - before);
  return layers;
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

void settle_split(const GivenKeys& given, std::int64_t replicas, Config& c) {
  ParallelConfig& p = c.parallel;
  const Owner& client = first_client(c.edge);
  const bool both_ends = client.layers.size() == 2;
  const std::int64_t servers = c.edge.owners[c.edge.with_role(Role::Server)[0]].devices;
  settle(given, "parallel.pipeline", p.pipeline, Auto(1 + servers));
  settle(given, "parallel.data", p.data, Auto(replicas));
  settle(given, "parallel.chunks", p.chunks, Auto(both_ends ? 2 : 1));
  settle(given, "parallel.partition", p.partition,
         Partition(has_one_cut(c.edge) ? cut_layers(c, client, servers) : refined_layers(c)));
  settle_schedule(given, both_ends, p);
  settle_memory(given, c);
}

}  // namespace

std::vector<std::vector<int>> client_cuts(const Config& c) {
  if (!c.edge.is_split() || c.edge.central || has_one_cut(c.edge)) return {};
  const std::vector<std::vector<std::int64_t>> ends = ends_of_stages(c);
  std::vector<std::vector<int>> cuts;
  for (const std::vector<std::int64_t>& own : ends) {
    auto& stages = cuts.emplace_back(1, 0);
    for (const std::int64_t end : all_ends(ends))
      stages.push_back(static_cast<int>(std::ranges::upper_bound(own, end) - own.begin()));
  }
  return cuts;
}

void derive_in_order(const GivenKeys& given, Config& c) {
  check_cuts(c);
  for (const int client : c.edge.with_role(Role::Client))
    require(c.edge.owners[client].layers == first_client(c.edge).layers, "owner ",
            c.edge.owners[client].name, " and owner ", first_client(c.edge).name,
            " have different layers, and with edge.in_order what is not the server's is averaged; "
            "give them the same, or leave edge.in_order out");
  for (const int client : c.edge.with_role(Role::Client))
    require(c.edge.owners[client].memory == first_client(c.edge).memory, "owner ",
            c.edge.owners[client].name, " and owner ", first_client(c.edge).name,
            " have different memory, and with edge.in_order one device plays both; give them the "
            "same");
  check_labels_stay(c);
  const Owner& server = c.edge.owners[c.edge.with_role(Role::Server)[0]];
  require(
      !server_comes_first(c) || server.devices == 1, "owner ", server.name, " has ", server.devices,
      " devices, and over a network a server at which clients take turns has one; leave devices "
      "out, or run all owners on threads with cleave train");
  settle(given, "parallel.tensor", c.parallel.tensor, Auto(1));
  if (!given.contains("numerics.data_shards")) c.numerics.data_shards = 1;
  if (c.edge.central) return settle_central(1, c);
  settle_split(given, 1, c);
}

void derive_split(const GivenKeys& given, Config& c) {
  const auto clients = std::ssize(c.edge.with_role(Role::Client));
  require(clients > 0, "no [[edge.owner]] has role \"client\"; add whose data is trained on");
  require(c.edge.is_split(),
          "no client of [edge] has layers, so nothing is split; say how many "
          "are its own, as in layers = [1, 1], or average what clients train "
          "with edge.sync_every");
  check_cuts(c);
  check_codecs(c.edge);
  require(c.devices.transport != Transport::Mpi,
          "devices.transport is \"mpi\", and owners are threads of one process, or join one with "
          "cleave serve; leave it out");
  check_labels_stay(c);
  settle(given, "parallel.tensor", c.parallel.tensor, Auto(1));
  if (!given.contains("numerics.data_shards")) c.numerics.data_shards = clients;
  if (c.edge.central) return settle_central(clients, c);
  settle_split(given, clients, c);
}

}  // namespace cleave::train
