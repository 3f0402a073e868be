#include "cleave/train/step/round_clients.h"

#include <algorithm>
#include <iterator>

#include "cleave/base/check.h"
#include "cleave/base/permutation.h"
#include "cleave/base/philox.h"
#include "cleave/secure/accountant.h"

namespace cleave::train {
namespace {

using detail::concat;

/// Whether something of this chance happens to a client in a round.
bool happens(const Config& config, std::string_view what, std::int64_t round, int client,
             double chance) {
  return Philox(static_cast<std::uint64_t>(config.train.seed), what, concat("round ", round))
             .uniform(static_cast<std::uint64_t>(client)) < chance;
}

double chance_of(const EdgeConfig& edge) {
  return static_cast<double>(edge.per_round()) / static_cast<double>(edge.client_count());
}

std::vector<int> chosen_of(const Config& config, std::int64_t round) {
  const EdgeConfig& edge = config.edge;
  std::vector<int> chosen;
  if (edge.noise > 0) {
    for (int client = 0; client < edge.client_count(); ++client)
      if (happens(config, "cohort", round, client, chance_of(edge))) chosen.push_back(client);
    return chosen;
  }
  const Permutation order(static_cast<std::uint64_t>(edge.client_count()),
                          static_cast<std::uint64_t>(config.train.seed), "clients of a round");
  for (std::int64_t i = 0; i < edge.per_round(); ++i)
    chosen.push_back(static_cast<int>(
        order.at(static_cast<std::uint64_t>(round), static_cast<std::uint64_t>(i))));
  std::ranges::sort(chosen);
  return chosen;
}

secure::NoisyRounds noisy_rounds(const EdgeConfig& edge) {
  return {.noise = edge.noise, .rate = chance_of(edge), .delta = edge.delta};
}

void check_budget(const Config& config) {
  const EdgeConfig& edge = config.edge;
  if (edge.noise == 0 || edge.epsilon == 0) return;
  const double cost = privacy_spent(config, config.train.steps);
  require(cost <= edge.epsilon, "edge.epsilon is ", edge.epsilon, ", and ", config.train.steps,
          " rounds with edge.noise ", edge.noise, " cost ", cost, "; take at most ",
          secure::rounds_within(edge.epsilon, noisy_rounds(edge)),
          " rounds, or more noise, or a smaller edge.sample");
}

}  // namespace

std::vector<int> RoundClients::answering() const {
  std::vector<int> clients;
  for (std::size_t place = 0; place < chosen.size(); ++place)
    if (answers[place]) clients.push_back(chosen[place]);
  return clients;
}

int RoundClients::place_of(int client) const {
  return static_cast<int>(std::ranges::lower_bound(chosen, client) - chosen.begin());
}

RoundClients clients_of_round(const Config& config, std::int64_t round) {
  RoundClients clients{.chosen = chosen_of(config, round)};
  const std::vector<int> absent = config.edge.absent_in(round);
  for (const int client : clients.chosen)
    clients.answers.push_back(!happens(config, "drop-outs", round, client, config.edge.drop) &&
                              !std::ranges::binary_search(absent, client));
  return clients;
}

std::vector<int> present_of(const Config& config, const RoundClients& clients, std::int64_t round) {
  const std::vector<int> absent = config.edge.absent_in(round);
  std::vector<int> here;
  std::ranges::copy_if(clients.chosen, std::back_inserter(here),
                       [&](int client) { return !std::ranges::binary_search(absent, client); });
  return here;
}

std::int64_t local_steps(const Config& config, std::int64_t sequences) {
  const std::int64_t batch = config.train.batch;
  return config.edge.sync_every * (config.edge.sync_epochs ? (sequences + batch - 1) / batch : 1);
}

void check_rounds(const Config& config) {
  const EdgeConfig& edge = config.edge;
  if (!edge.averages()) return;
  check_budget(config);
  if (edge.drop == 0 && edge.noise == 0 && edge.absent.empty()) return;
  const edge::OuterKind& outer = *edge::find_outer(edge.outer);
  const auto fewest = static_cast<std::ptrdiff_t>(
      outer.robust ? outer.fewest(static_cast<std::size_t>(edge.faulty)) : 0);
  for (std::int64_t round = 0; round < config.train.steps; ++round) {
    const RoundClients clients = clients_of_round(config, round);
    const auto answers = std::ssize(clients.answering());
    require(answers >= edge.quorum, "in round ", round + 1, " ", answers, " of ",
            clients.chosen.size(), " clients answer, and edge.quorum is ", edge.quorum,
            "; lower it, let more take part with edge.sample, or lower edge.drop");
    require(answers >= fewest, "in round ", round + 1, " ", answers,
            " clients answer, and edge.outer ", edge.outer, " with edge.faulty ", edge.faulty,
            " needs ", fewest, "; let more take part with edge.sample, or lower edge.faulty");
    require(!edge.secure || answers >= kFewestMasked, "in round ", round + 1, " ", answers,
            " clients answer, and edge.secure needs ", kFewestMasked,
            "; let more take part with edge.sample, or lower edge.drop");
  }
}

double privacy_spent(const Config& config, std::int64_t rounds) {
  if (config.edge.noise == 0) return 0;
  return secure::epsilon_after(rounds, noisy_rounds(config.edge));
}

}  // namespace cleave::train
