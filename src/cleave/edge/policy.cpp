#include "cleave/edge/policy.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/base/units.h"

namespace cleave::edge {
namespace {

bool has(const auto& list, const auto& element) {
  return std::ranges::find(list, element) != list.end();
}

/// What a crossing breaks; empty: nothing.
std::string crossing_refusal(const Policy& policy, const Crossing& crossing,
                             std::span<const Owner> owners) {
  const std::string who = detail::concat("the policy of ", policy.owner);
  if (!has(policy.sends, crossing.what))
    return detail::concat(who, " does not let ", name_of(crossing.what),
                          " leave it: ", crossing.path);
  for (const int to : crossing.to)
    if (!policy.to.empty() && !has(policy.to, owners[to].name))
      return detail::concat(who, " lets nothing go to ", owners[to].name, ", and ",
                            name_of(crossing.what), " would: ", crossing.path);
  return "";
}

}  // namespace

std::vector<std::string> policy_refusals(const Policy& policy, const AskedOfOwners& asked,
                                         std::span<const Crossing> crossings,
                                         std::span<const Owner> owners) {
  const auto self = std::ranges::find(owners, policy.owner, &Owner::name);
  require(self != owners.end(), "the policy is of owner \"", policy.owner,
          "\", and the run has none of that name; set owner to one of its [[edge.owner]]");
  std::vector<std::string> sentences;
  std::int64_t bytes = 0;
  for (const Crossing& crossing : crossings) {
    if (crossing.from != self - owners.begin()) continue;
    bytes += crossing.bytes;
    const std::string sentence = crossing_refusal(policy, crossing, owners);
    if (!sentence.empty()) sentences.push_back(sentence);
  }
  const std::string unit = asked.rounds ? "round" : "step";
  const auto limit = [&](bool within, const auto&... words) {
    if (!within) sentences.push_back(detail::concat("the policy of ", policy.owner, " ", words...));
  };
  limit(policy.bytes == 0 || bytes <= policy.bytes, "lets ", policy.bytes, " B leave it in a ",
        unit, ", and the run sends ", bytes, " B");
  limit(policy.steps == 0 || asked.steps <= policy.steps, "allows ", counted(policy.steps, unit),
        ", and the run has ", asked.steps);
  limit(self->layers.empty() || self->layers[0] >= policy.layers, "wants ",
        counted(policy.layers, "layer"), " of its own before what it sends, and the run gives it ",
        self->layers.empty() ? 0 : self->layers[0]);
  limit(policy.epsilon == 0 || asked.epsilon <= policy.epsilon, "allows ε ", policy.epsilon,
        ", and the run costs ", asked.epsilon);
  return sentences;
}

}  // namespace cleave::edge
