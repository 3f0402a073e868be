#include "cleave/train/step/owner_flow.h"

#include <algorithm>
#include <map>

#include "cleave/base/check.h"
#include "cleave/engine/compile/step_stages.h"
#include "cleave/spec/trainable.h"
#include "cleave/train/step/cuts.h"
#include "cleave/train/step/fragments.h"
#include "cleave/train/step/spooled_sum.h"

namespace cleave::train {
namespace {

/// What the layers of a segment load. An input that the layer which gives the result reads is what
/// is to be predicted.
void add_segment(const Graph& model, int segment, edge::StageUse& use) {
  const SegmentSpec& spec = model.segments[segment];
  const auto bytes_of = [&](const std::string& name) {
    return std::ranges::find(model.inputs, name, &Graph::Input::name)->tensor.bytes();
  };
  if (const std::string* input = input_at(model, segment, "x")) {
    use.input = *input;
    use.input_bytes += bytes_of(*input);
  }
  for (const LayerSpec& layer : spec.layers) {
    const bool gives_result = &layer == &spec.layers.back() && !y_leaves(model, segment);
    for (const ReadTensor& read : layer.reads) {
      const std::string* input = input_at(model, segment, read.port);
      if (input == nullptr) continue;
      (gives_result ? use.label : use.input) = *input;
      (gives_result ? use.label_bytes : use.input_bytes) += bytes_of(*input);
    }
  }
}

/// [segment] whether its y has gone through a product of its own stage: one of its own, or one in
/// everything that it reads.
std::vector<bool> multiplied(const Graph& model, const engine::Wiring& wiring) {
  std::vector<bool> known(model.segments.size(), false);
  for (int s = 0; s < std::ssize(model.segments); ++s) {
    const auto products = [](const LayerSpec& layer) { return !layer.forward.empty(); };
    const auto read = [&](const Graph::Edge& edge) {
      const int from = edge.from.segment;
      return edge.to.segment != s ||
             (from != Graph::kData && wiring.stage_of(from) == wiring.stage_of(s) && known[from]);
    };
    known[s] = std::ranges::any_of(model.segments[s].layers, products) ||
               std::ranges::all_of(model.edges, read);
  }
  return known;
}

std::vector<edge::StageUse> uses_of(const engine::CompiledStep& step) {
  const engine::Wiring wiring = engine::wiring_of(step);
  const std::vector<bool> products = multiplied(step.model, wiring);
  std::vector<edge::StageUse> uses(step.stages.size());
  for (edge::StageUse& use : uses) use.product = true;
  for (int s = 0; s < std::ssize(step.model.segments); ++s) {
    edge::StageUse& use = uses[wiring.stage_of(s)];
    add_segment(step.model, s, use);
    const std::vector<Graph::Port> readers = readers_of(step.model, s);
    const auto outside = [&](const Graph::Port& port) {
      return wiring.stage_of(port.segment) != wiring.stage_of(s);
    };
    if (readers.empty() || std::ranges::any_of(readers, outside))
      use.product = use.product && products[s];
  }
  return uses;
}

constexpr std::int64_t kStatisticBytes = 16;  ///< a loss, and how many sequences

/// Every client sends its update, and is sent the weights of all.
std::vector<edge::Crossing> round_flow(const Config& config, const Graph& model) {
  using edge::Class;
  const std::vector<edge::Owner> owners = flow_owners(config);
  const RoundBytes bytes = round_bytes(config, model);
  const auto server = static_cast<int>(
      std::ranges::find(owners, edge::Role::Server, &edge::Owner::role) - owners.begin());
  std::vector<edge::Crossing> rows;
  std::vector<int> clients;
  for (int i = 0; i < std::ssize(owners); ++i)
    if (owners[i].role == edge::Role::Client) clients.push_back(i);
  for (const int client : clients) {
    const std::string path = detail::concat("data of ", owners[client].name, " → local steps → AGG",
                                            " → ", owners[server].name);
    const Class sent = config.edge.secure         ? Class::MaskedUpdate
                       : config.edge.by_example() ? Class::NoisedUpdate
                                                  : Class::Update;
    rows.push_back({client, {server}, sent, {client}, bytes.up, path});
    rows.push_back({client, {server}, Class::Statistic, {client}, kStatisticBytes, path});
  }
  for (const int client : clients)
    rows.push_back({server,
                    {client},
                    Class::Weight,
                    clients,
                    bytes.down,
                    detail::concat("AGG on ", owners[server].name, " → ", owners[client].name)});
  return rows;
}

}  // namespace

std::vector<edge::Owner> flow_owners(const Config& config) {
  std::vector<edge::Owner> owners = config.edge.owners;
  if (!config.edge.averages()) return owners;
  const auto add = [&](edge::Role role, std::string name) {
    owners.push_back(edge::usual_owner(role));
    owners.back().name = std::move(name);
  };
  if (owners.empty())
    add(edge::Role::Client, detail::concat("each of ", config.edge.client_count(), " clients"));
  if (std::ranges::find(owners, edge::Role::Server, &edge::Owner::role) == owners.end())
    add(edge::Role::Server, "server");
  return owners;
}

RoundBytes round_bytes(const Config& config, const Graph& model) {
  const ServerPart shared = shared_part(config, model);
  const Fragments fragments(config, model);
  std::map<std::int64_t, RoundBytes> all;
  for (const SegmentSpec& segment : model.segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        if (!parameter.trainable || !parameter.tied_to.empty() ||
            shared.parameters.contains(parameter.name))
          continue;
        for (const Piece& piece : parameter.pieces) {
          const std::int64_t elements = parameter.shape.with(piece.dim, piece.whole).elements();
          RoundBytes& bytes = all[fragments.fragment_of(piece.name)];
          bytes.up += update_bytes(config.edge, elements);
          bytes.down += elements * 4;
        }
      }
    }
  }
  RoundBytes most;
  for (const auto& [fragment, bytes] : all)
    if (bytes.down > most.down) most = bytes;
  return most;
}

namespace {

/// What leaves whom in a step of a split model; `owners` [device], `clients` [replica].
std::vector<edge::Crossing> split_flow(const Config& config, const engine::CompiledStep& step,
                                       const std::vector<int>& owners,
                                       const std::vector<int>& clients) {
  const int server = config.edge.with_role(edge::Role::Server)[0];
  edge::OwnedProgram owned{.program = &step.program,
                           .owners = config.edge.owners,
                           .owner_of = std::vector<int>(owners.size()),
                           .stages = uses_of(step),
                           .collected = std::vector<std::vector<std::int64_t>>(owners.size())};
  for (int device = 0; device < step.devices(); ++device) {
    owned.owner_of[step.place_of(device)] = owners[device];
    owned.collected[step.place_of(device)] = engine::collective_bytes(step, device);
  }
  for (const int client : clients) {
    owned.data_of.push_back(client);
    owned.labels_of.push_back(config.edge.owners[client].holds_labels ? client : server);
  }
  return edge::flow(owned);
}

/// What leaves whom in a round in which clients take turns: the steps of each, then its update.
std::vector<edge::Crossing> in_order_flow(const Config& config, const engine::CompiledStep& step) {
  std::vector<edge::Crossing> rows;
  const std::vector<int> first = device_owners(config);
  const std::vector<int> clients = config.edge.with_role(edge::Role::Client);
  for (const int client : clients) {
    std::vector<int> owners = first;
    std::ranges::replace(owners, clients.front(), client);
    for (edge::Crossing& row : split_flow(config, step, owners, {client})) {
      row.bytes *= config.edge.sync_every;
      rows.push_back(std::move(row));
    }
  }
  for (edge::Crossing& row : round_flow(config, step.model)) {
    const auto same = std::ranges::find_if(rows, [&](const edge::Crossing& other) {
      return other.from == row.from && other.to == row.to && other.what == row.what;
    });
    if (same == rows.end()) {
      rows.push_back(std::move(row));
    } else {
      same->bytes += row.bytes;
    }
  }
  return rows;
}

}  // namespace

std::vector<edge::Crossing> owner_flow(const Config& config, const engine::CompiledStep& step) {
  if (config.edge.in_order && !config.edge.central) return in_order_flow(config, step);
  if (config.edge.averages()) return round_flow(config, step.model);
  const std::vector<int> owners = device_owners(config);
  if (owners.empty()) return {};
  return split_flow(config, step, owners, config.edge.with_role(edge::Role::Client));
}

void check_flow(const Config& config, const engine::CompiledStep& step) {
  const auto sentences = edge::refusals(owner_flow(config, step), flow_owners(config));
  if (!sentences.empty()) throw UserError(sentences.front());
}

}  // namespace cleave::train
