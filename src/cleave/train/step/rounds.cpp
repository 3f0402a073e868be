#include "cleave/train/step/rounds.h"

#include <algorithm>
#include <numeric>

#include "cleave/base/check.h"
#include "cleave/base/permutation.h"
#include "cleave/train/step/cuts.h"
#include "cleave/train/step/mask_exchange.h"
#include "cleave/train/step/round_slots.h"
#include "cleave/train/step/run_secret.h"
#include "cleave/train/step/slot_elements.h"

namespace cleave::train {

using engine::SlotState;
using engine::TensorState;

Rounds::Rounds(const Config& config, const engine::CompiledStep& compiled, const TrainingData& data,
               engine::Device& device, comm::Communicator& world, HeldLayers* held)
    : config_(config),
      clients_(*data.clients),
      exchange_(data.exchange),
      turns_apart_(data.turns),
      device_(device),
      held_(held),
      world_(world),
      sum_(config, compiled.tensor_names, held != nullptr ? held->device() : device, world,
           shared_part(config, compiled.model).tensors),
      fragments_(config, compiled.model),
      own_weights_(fragments_, sum_.tensors(), exchange_, clients_.clients()),
      turns_(static_cast<std::size_t>(clients_.clients())) {
  for (int client = 0; client < clients_.clients(); ++client)
    most_sequences_ = std::max(most_sequences_, clients_.windows_of(client));
  if (exchange_ == nullptr) return;
  if (exchange_->is_server()) {
    spooled_.emplace(config, sum_.tensors());
  } else {
    keep_.emplace(config, sum_.tensors());
  }
}

void Rounds::continue_after(std::int64_t rounds) {
  std::ranges::fill(turns_, 0);
  for (std::int64_t round = 0; round < rounds; ++round)
    for (const int client : clients_of_round(config_, round).answering()) ++turns_[client];
}

/// At most 1, so that sums in fixed point do not run over.
double Rounds::weight_of(int client) const {
  if (!config_.edge.weigh_samples) return 1;
  return static_cast<double>(clients_.windows_of(client)) / static_cast<double>(most_sequences_);
}

/// `before`: clients that had their turn in the same round.
ClientTurn Rounds::turn_of(int client, std::int64_t round, std::size_t before) const {
  const std::int64_t steps = local_steps(config_, clients_.windows_of(client));
  const std::int64_t taken = turns_[client] * steps;
  return {.client = client,
          .round = round,
          .steps = steps,
          .taken = config_.edge.keep_slots ? taken : 0,
          .first = taken * config_.train.batch,
          .shared = (all_turns() + static_cast<std::int64_t>(before)) * steps};
}

/// The turns of all clients, in the rounds before this one.
std::int64_t Rounds::all_turns() const {
  return std::reduce(turns_.begin(), turns_.end(), std::int64_t{0});
}

/// In the order in which they answer.
std::vector<int> Rounds::arriving(const std::vector<int>& clients, std::int64_t round) const {
  if (config_.edge.arrival == 0 || clients.empty()) return clients;
  const Permutation order(clients.size(), static_cast<std::uint64_t>(config_.edge.arrival),
                          "arrival");
  std::vector<int> shuffled;
  for (std::size_t i = 0; i < clients.size(); ++i)
    shuffled.push_back(clients[order.at(static_cast<std::uint64_t>(round), i)]);
  return shuffled;
}

/// The weights of all, and the client's own slots, or fresh ones. A client that is apart has its
/// own where its optimizer left them.
void Rounds::begin_client(int client) {
  sum_.reset_weights();
  own_weights_.begin(client);
  if (keep_ && config_.edge.keep_slots) return device_.refresh_values();
  for (const TensorState* tensor : sum_.tensors()) {
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

void Rounds::keep_slots(int client) {
  if (!config_.edge.keep_slots) return;
  for (const TensorState* tensor : sum_.tensors())
    for (const SlotState& slot : tensor->slots)
      if (is_inner(slot.name))
        copy_elements(*tensor, slot.values, slot_of(*tensor, client_slot(client, slot.name)));
}

const secure::Bytes32& Rounds::secret() {
  if (!secret_) secret_ = run_secret(config_, world_);
  return *secret_;
}

RoundEnd Rounds::end_of(std::int64_t round, const std::vector<int>& answering) {
  RoundEnd end{.round = round, .clients = answering.size()};
  for (const int client : answering) end.weights += weight_of(client);
  if (config_.edge.noise > 0) {
    // How many came is not for everybody to know: the accountant has the mean number of them.
    end.weights = static_cast<double>(config_.edge.per_round());
    end.noise = secure::derive(secret(), detail::concat("noise, round ", round));
  }
  return end;
}

std::int64_t Rounds::share_start(std::int64_t rounds) {
  if (exchange_ == nullptr) return rounds;
  double numbers[] = {static_cast<double>(rounds)};
  exchange_->share_numbers(numbers);
  exchange_->share_weights(sum_.tensors());
  rounds = static_cast<std::int64_t>(numbers[0]);
  continue_after(rounds);
  if (keep_) continue_own(rounds);
  refresh_values();
  return rounds;
}

/// On a client that is apart: what it kept, but for what was averaged since.
void Rounds::continue_own(std::int64_t rounds) {
  const int own = exchange_->own().value();
  sum_.take_start();
  keep_->load(turns_[static_cast<std::size_t>(own)]);
  std::int64_t last = rounds;
  while (last > 0 &&
         !std::ranges::binary_search(clients_of_round(config_, last - 1).answering(), own))
    --last;
  own_weights_.join(last == 0 ? sum_.tensors()
                              : fragments_.of_rounds(sum_.tensors(), last - 1, rounds));
}

void Rounds::refresh_values() {
  device_.refresh_values();
  if (held_ != nullptr) held_->device().refresh_values();
}

/// All of them here, one after another.
void Rounds::play_in_turn(const RoundClients& clients, std::int64_t round, const Train& train,
                          Results& results) {
  const std::vector<int> answering = clients.answering();
  std::optional<secure::PlayedSum> masked;
  if (config_.edge.secure)
    masked.emplace(secure::derive(secret(), detail::concat("masks, round ", round)),
                   clients.answers);
  const RoundExchange::Tensors averaged = fragments_.of_round(sum_.tensors(), round);
  if (round == 0) own_weights_.join(sum_.tensors());
  sum_.take_start();
  sum_.begin_round(averaged);
  std::size_t arrival = 0;
  for (const int client : arriving(answering, round)) {
    begin_client(client);
    results[client] = train(turn_of(client, round, arrival));
    keep_slots(client);
    own_weights_.keep(client);
    sum_.add({.client = client,
              .round = round,
              .arrival = arrival++,
              .weight = weight_of(client),
              .masks = masked ? &masked->client(clients.place_of(client)) : nullptr});
  }
  RoundEnd end = end_of(round, answering);
  if (masked) end.left = masked->left();
  sum_.end_round(end);
  own_weights_.join(averaged);
}

/// On a client that is apart: its own part of the round, if it has one.
void Rounds::take_part(const RoundClients& clients, std::int64_t round, const Train& train) {
  const int own = exchange_->own().value();
  const std::vector<int> members = present_of(config_, clients, round);
  const auto place = std::ranges::find(members, own) - members.begin();
  // Nobody waits for the masks of a client that is declared absent, even if it is here.
  if (place == std::ssize(members)) return;
  std::optional<MaskingMember> masks;
  if (config_.edge.secure)
    masks.emplace(*exchange_, static_cast<int>(place), static_cast<int>(members.size()));
  if (!clients.answers[static_cast<std::size_t>(clients.place_of(own))]) return;
  const RoundExchange::Tensors averaged = fragments_.of_round(sum_.tensors(), round);
  if (!fragments_.streams()) sum_.take_start();
  sum_.begin_round(averaged);
  begin_client(own);
  if (turns_apart_ != nullptr) turns_apart_->await();
  const std::vector<int> answering = clients.answering();
  const auto before = std::ranges::lower_bound(answering, own) - answering.begin();
  const ClientResult result = train(turn_of(own, round, static_cast<std::size_t>(before)));
  own_weights_.keep(own);
  exchange_->send_result(result);
  const ClientUpdate update{.client = own,
                            .round = round,
                            .weight = weight_of(own),
                            .masks = masks ? &masks->masks() : nullptr};
  SendStream stream = exchange_->send_update();
  sum_.encoder().send(
      averaged, update, [&] { keep_->save(turns_[static_cast<std::size_t>(own)] + 1); },
      [&](std::span<const std::byte> bytes) { stream.put(bytes); });
  stream.end();
  if (masks) masks->reveal();
}

/// On the server of clients that are apart: what they made of the weights, and what becomes of it.
void Rounds::receive_all(const RoundClients& clients, std::int64_t round, const Train& train,
                         Results& results) {
  const std::vector<int> answering = clients.answering();
  for (std::size_t i = 0; turns_apart_ != nullptr && i < answering.size(); ++i) {
    turns_apart_->begin(answering[i]);
    train(turn_of(answering[i], round, i));
  }
  const std::vector<int> members = present_of(config_, clients, round);
  std::optional<MaskedRound> masked;
  if (config_.edge.secure) masked.emplace(*exchange_, members);
  spooled_->begin_round(fragments_.of_round(sum_.tensors(), round));
  const std::vector<int> order = arriving(answering, round);
  std::vector<double> weights;
  for (const int client : order) weights.push_back(weight_of(client));
  const std::vector<ClientResult> turns = spooled_->receive(*exchange_, order, weights);
  for (std::size_t i = 0; i < order.size(); ++i) results[order[i]] = turns[i];
  RoundEnd end = end_of(round, answering);
  std::vector<secure::LeftMask> left;
  if (masked) {
    std::vector<bool> answered;
    for (const int member : members)
      answered.push_back(std::ranges::binary_search(answering, member));
    left = masked->left(answered);
    end.left = left;
  }
  spooled_->close(end);
}

/// In the order of the clients, whoever came first.
void Rounds::sum_up(const std::vector<int>& answering, const Results& results,
                    RoundReport& report) const {
  double weights = 0;
  for (const int client : answering) {
    const double weight = weight_of(client);
    weights += weight;
    report.loss += weight * results[client].loss;
    report.gradient_norm += weight * results[client].gradient_norm;
    report.stop = report.stop || results[client].stop;
  }
  if (weights == 0) return;
  report.loss /= weights;
  report.gradient_norm /= weights;
}

void Rounds::share(RoundReport& report, std::int64_t round) {
  if (exchange_ == nullptr) return;
  double numbers[] = {report.loss, report.gradient_norm, report.stop ? 1.0 : 0.0};
  exchange_->share_numbers(numbers);
  report.loss = numbers[0];
  report.gradient_norm = numbers[1];
  report.stop = numbers[2] > 0;
  const RoundExchange::Tensors averaged = fragments_.of_round(sum_.tensors(), round);
  exchange_->share_weights(averaged);
  own_weights_.join(averaged);
  refresh_values();
}

RoundReport Rounds::play(std::int64_t round, bool stop, const Train& train) {
  const RoundClients clients = clients_of_round(config_, round);
  const std::vector<int> answering = clients.answering();
  RoundReport report{.stop = stop,
                     .participants = std::ssize(answering),
                     .absent = std::ssize(clients.chosen) - std::ssize(answering)};
  Results results(turns_.size());
  if (keep_) {
    take_part(clients, round, train);
  } else if (spooled_) {
    receive_all(clients, round, train, results);
  } else {
    play_in_turn(clients, round, train, results);
  }
  sum_up(answering, results, report);
  for (const int client : answering) {
    report.steps += turn_of(client, round).steps;
    ++turns_[client];
  }
  refresh_values();
  return report;
}

}  // namespace cleave::train
