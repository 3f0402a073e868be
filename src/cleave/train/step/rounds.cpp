#include "cleave/train/step/rounds.h"

#include <algorithm>
#include <array>
#include <bit>

#include "cleave/base/check.h"
#include "cleave/base/permutation.h"
#include "cleave/edge/fixed_point.h"
#include "cleave/train/step/round_slots.h"

namespace cleave::train {
namespace {

using engine::SlotState;
using engine::TensorState;

View slot_of(const TensorState& tensor, std::string_view name) {
  const auto found = std::ranges::find(tensor.slots, name, &SlotState::name);
  CLEAVE_CHECK(found != tensor.slots.end(), tensor.name, " has no slot ", name);
  return found->values;
}

/// Calls visit(pointers, elements) on every run of neighbours, which all of `views` have alike.
template <std::size_t N, class Visit>
void for_each_joint_run(const TensorState& tensor, const std::array<View, N>& views,
                        Visit&& visit) {
  const bool rows = tensor.dim != 0;
  const std::int64_t runs = rows ? views[0].size(0) : 1;
  const std::int64_t length = rows ? views[0].size(1) : views[0].elements();
  for (std::int64_t run = 0; run < runs; ++run) {
    std::array<float*, N> at;
    for (std::size_t i = 0; i < N; ++i)
      at[i] = views[i].template as<float>() + (rows ? run * views[i].stride(0) : 0);
    visit(at, length);
  }
}

void copy_elements(const TensorState& tensor, View from, View to) {
  for_each_joint_run<2>(tensor, {from, to}, [](const auto& at, std::int64_t length) {
    std::copy_n(at[0], length, at[1]);
  });
}

void clear_elements(const TensorState& tensor, View slot) {
  for_each_joint_run<1>(tensor, {slot}, [](const auto& at, std::int64_t length) {
    std::fill_n(at[0], length, 0.0f);
  });
}

/// The 64 bits that element i of two slots has.
std::uint64_t joined(const float* low, const float* high, std::int64_t i) {
  return std::bit_cast<std::uint32_t>(low[i]) | std::uint64_t{std::bit_cast<std::uint32_t>(high[i])}
                                                    << 32;
}

void part(std::uint64_t bits, float* low, float* high, std::int64_t i) {
  low[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  high[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32));
}

/// The weights follow `update(i)`, element by element.
template <class Update>
void follow(const edge::OuterKind& outer, const edge::OuterHyper& hyper,
            const std::array<float*, 3>& at, std::int64_t length, Update&& update) {
  constexpr std::int64_t kChunk = 256;
  std::array<double, kChunk> updates;
  for (std::int64_t begin = 0; begin < length; begin += kChunk) {
    const auto count = static_cast<std::size_t>(std::min(kChunk, length - begin));
    for (std::size_t i = 0; i < count; ++i)
      updates[i] = update(begin + static_cast<std::int64_t>(i));
    const auto run = [&](float* elements) { return std::span(elements + begin, count); };
    outer.update({.weights = run(at[0]),
                  .update = std::span(updates).first(count),
                  .momentum = outer.momentum ? run(at[1]) : std::span<float>(),
                  .squares = outer.squares ? run(at[2]) : std::span<float>()},
                 hyper);
  }
}

}  // namespace

std::vector<int> participants_of(const Config& config, std::int64_t round) {
  const Permutation order(static_cast<std::uint64_t>(config.edge.client_count()),
                          static_cast<std::uint64_t>(config.train.seed), "clients of a round");
  std::vector<int> clients;
  for (std::int64_t i = 0; i < config.edge.per_round(); ++i)
    clients.push_back(static_cast<int>(
        order.at(static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(i))));
  std::ranges::sort(clients);
  return clients;
}

std::int64_t local_steps(const Config& config, std::int64_t sequences) {
  const std::int64_t batch = config.train.batch;
  return config.edge.sync_every * (config.edge.sync_epochs ? (sequences + batch - 1) / batch : 1);
}

Rounds::Rounds(const Config& config, const ClientData& clients, engine::Device& device)
    : config_(config),
      clients_(clients),
      device_(device),
      outer_(*edge::find_outer(config.edge.outer)),
      hyper_(config.edge.outer_hyper()),
      turns_(static_cast<std::size_t>(clients.clients())) {
  for (int client = 0; client < clients.clients(); ++client)
    most_sequences_ = std::max(most_sequences_, clients.windows_of(client));
  for (const auto* tensors : {&device.tensors(), &device.copies()})
    for (const TensorState& tensor : *tensors)
      if (tensor.trained()) tensors_.push_back(&tensor);
}

void Rounds::continue_after(std::int64_t rounds) {
  std::ranges::fill(turns_, 0);
  for (std::int64_t round = 0; round < rounds; ++round)
    for (const int client : participants_of(config_, round)) ++turns_[client];
}

/// At most 1, so that sums in fixed point do not run over.
double Rounds::weight_of(int client) const {
  if (!config_.edge.weigh_samples) return 1;
  return static_cast<double>(clients_.windows_of(client)) / static_cast<double>(most_sequences_);
}

ClientTurn Rounds::turn_of(int client, std::int64_t round) const {
  const std::int64_t steps = local_steps(config_, clients_.windows_of(client));
  const std::int64_t before = turns_[client] * steps;
  return {.client = client,
          .round = round,
          .steps = steps,
          .taken = config_.edge.keep_slots ? before : 0,
          .first = before * config_.train.batch};
}

/// In the order in which they answer.
std::vector<int> Rounds::arriving(const std::vector<int>& clients, std::int64_t round) const {
  if (config_.edge.arrival == 0) return clients;
  const Permutation order(clients.size(), static_cast<std::uint64_t>(config_.edge.arrival),
                          "arrival");
  std::vector<int> shuffled;
  for (std::size_t i = 0; i < clients.size(); ++i)
    shuffled.push_back(clients[order.at(static_cast<std::uint64_t>(round), i)]);
  return shuffled;
}

void Rounds::begin_round() {
  for (const TensorState* tensor : tensors_) {
    copy_elements(*tensor, tensor->master, slot_of(*tensor, kStartSlot));
    if (outer_.median) continue;
    for (const std::string_view sum : {kLowSlot, kHighSlot})
      clear_elements(*tensor, slot_of(*tensor, sum));
  }
}

/// The weights of all, and the client's own slots, or fresh ones.
void Rounds::begin_client(int client) {
  for (const TensorState* tensor : tensors_) {
    copy_elements(*tensor, slot_of(*tensor, kStartSlot), tensor->master);
    for (const SlotState& slot : tensor->slots) {
      if (!is_inner(slot.name)) continue;
      if (config_.edge.keep_slots) {
        copy_elements(*tensor, slot_of(*tensor, client_slot(client, slot.name)), slot.values);
      } else {
        clear_elements(*tensor, slot.values);
      }
    }
  }
  device_.refresh_values();
}

/// Takes up what the client made of the weights.
void Rounds::end_client(int client, std::size_t place) {
  for (const TensorState* tensor : tensors_) {
    for (const SlotState& slot : tensor->slots)
      if (config_.edge.keep_slots && is_inner(slot.name))
        copy_elements(*tensor, slot.values, slot_of(*tensor, client_slot(client, slot.name)));
    if (!outer_.median) {
      add_update(*tensor, client);
      continue;
    }
    for_each_joint_run<3>(
        *tensor,
        {tensor->master, slot_of(*tensor, kStartSlot), slot_of(*tensor, update_slot(place))},
        [](const auto& at, std::int64_t length) {
          for (std::int64_t i = 0; i < length; ++i) at[2][i] = at[0][i] - at[1][i];
        });
  }
}

void Rounds::add_update(const TensorState& tensor, int client) {
  const double weight = weight_of(client);
  for_each_joint_run<4>(
      tensor,
      {tensor.master, slot_of(tensor, kStartSlot), slot_of(tensor, kLowSlot),
       slot_of(tensor, kHighSlot)},
      [&](const auto& at, std::int64_t length) {
        for (std::int64_t i = 0; i < length; ++i) {
          const double update = weight * (static_cast<double>(at[0][i]) - at[1][i]);
          std::uint64_t sum = joined(at[2], at[3], i);
          if (!config_.edge.fixed_sums) {
            sum = std::bit_cast<std::uint64_t>(std::bit_cast<double>(sum) + update);
          } else if (!edge::add_fixed(update, sum)) {
            throw NonFinite(
                detail::concat("client ", client, " moved ", tensor.name, " by ", update,
                               ", which is too much to be added in fixed point; lower "
                               "train.lr, set train.clip, or edge.sums to \"ordered\""));
          }
          part(sum, at[2], at[3], i);
        }
      });
}

void Rounds::aggregate(const TensorState& tensor, std::size_t clients, double weights) {
  copy_elements(tensor, slot_of(tensor, kStartSlot), tensor.master);
  if (outer_.median) return aggregate_median(tensor, clients);
  const View momentum = outer_.momentum ? slot_of(tensor, kMomentumSlot) : tensor.master;
  const View squares = outer_.squares ? slot_of(tensor, kSquaresSlot) : tensor.master;
  for_each_joint_run<5>(
      tensor,
      {tensor.master, momentum, squares, slot_of(tensor, kLowSlot), slot_of(tensor, kHighSlot)},
      [&](const auto& at, std::int64_t length) {
        follow(outer_, hyper_, {at[0], at[1], at[2]}, length, [&](std::int64_t i) {
          const std::uint64_t sum = joined(at[3], at[4], i);
          return (config_.edge.fixed_sums ? edge::from_fixed(sum) : std::bit_cast<double>(sum)) /
                 weights;
        });
      });
}

void Rounds::aggregate_median(const TensorState& tensor, std::size_t clients) {
  std::vector<View> updates;
  for (std::size_t i = 0; i < clients; ++i) updates.push_back(slot_of(tensor, update_slot(i)));
  std::vector<float> values(clients);
  std::int64_t row = 0;
  for_each_joint_run<1>(tensor, {tensor.master}, [&](const auto& at, std::int64_t length) {
    follow(outer_, hyper_, {at[0], at[0], at[0]}, length, [&](std::int64_t i) {
      for (std::size_t c = 0; c < clients; ++c) {
        const std::int64_t begin = tensor.dim != 0 ? row * updates[c].stride(0) : 0;
        values[c] = updates[c].as<float>()[begin + i];
      }
      return edge::median_of(values);
    });
    ++row;
  });
}

RoundReport Rounds::play(std::int64_t round, const Train& train) {
  const std::vector<int> clients = participants_of(config_, round);
  RoundReport report{.participants = std::ssize(clients)};
  std::vector<ClientResult> results(turns_.size());
  begin_round();
  std::size_t place = 0;
  for (const int client : arriving(clients, round)) {
    const ClientTurn turn = turn_of(client, round);
    begin_client(client);
    results[client] = train(turn);
    end_client(client, place++);
    report.steps += turn.steps;
  }
  // In the order of the clients, whoever came first.
  double weights = 0;
  for (const int client : clients) {
    const double weight = weight_of(client);
    weights += weight;
    report.loss += weight * results[client].loss;
    report.gradient_norm += weight * results[client].gradient_norm;
    report.stop = report.stop || results[client].stop;
    ++turns_[client];
  }
  report.loss /= weights;
  report.gradient_norm /= weights;
  for (const TensorState* tensor : tensors_) aggregate(*tensor, clients.size(), weights);
  device_.refresh_values();
  return report;
}

}  // namespace cleave::train
