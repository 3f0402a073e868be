#include "cleave/train/config/edge_config.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/train/config/config.h"
#include "cleave/train/config/edge_rules.h"

namespace cleave::train {

using edge::Owner;
using edge::Role;

namespace {

void check_names(const EdgeConfig& edge) {
  std::set<std::string> names;
  for (const Owner& owner : edge.owners) {
    require(!owner.name.empty(), "an [[edge.owner]] has no name; give each one of its own");
    require(names.insert(owner.name).second, "two [[edge.owner]] are called \"", owner.name,
            "\"; give each a name of its own");
  }
}

void check_given(const GivenKeys& given, const EdgeConfig& edge) {
  for (const std::string& key : given) {
    const bool other = key == "edge.owner" || key == "edge.central" || key == "edge.sync_every" ||
                       (key == "edge.codec" && edge.is_split());
    require(other || !key.starts_with("edge."), key,
            " is set, and edge.sync_every is not, so nothing is averaged; set it, or leave ", key,
            " out");
  }
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

}  // namespace

int EdgeConfig::client_count() const {
  return owners.empty() ? static_cast<int>(clients)
                        : static_cast<int>(with_role(Role::Client).size());
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
    if (c.edge.in_order) derive_in_order(given, c);
    derive_examples(given, c);
    return settle_data(given, c);
  }
  refuse_split_examples(c.edge);
  check_given(given, c.edge);
  if (c.edge.owners.empty()) {
    require(!c.edge.central,
            "edge.central is true, and there are no owners to be played on one "
            "device; add [[edge.owner]], or leave it out");
    return;
  }
  derive_split(given, c);
  settle_data(given, c);
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
