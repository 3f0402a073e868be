#include "cleave/train/step/round_slots.h"

#include "cleave/base/check.h"
#include "cleave/base/codec.h"

namespace cleave::train {

std::string update_slot(std::size_t place) {
  return detail::concat("round.update", place);
}

std::string client_slot(int client, std::string_view slot) {
  return detail::concat("client.", client, ".", slot);
}

bool is_transient(std::string_view slot) {
  return slot.starts_with("round.");
}

bool is_inner(std::string_view slot) {
  return !is_transient(slot) && !slot.starts_with("client.") && !slot.starts_with("outer_");
}

std::vector<std::string> round_slots(const EdgeConfig& edge, Clients clients,
                                     const std::vector<std::string>& optimizer) {
  const edge::OuterKind& outer = *edge::find_outer(edge.outer);
  const Codec& codec = *find_codec(edge.codec);
  std::vector<std::string> slots;
  if (outer.momentum) slots.emplace_back(kMomentumSlot);
  if (outer.squares) slots.emplace_back(kSquaresSlot);
  if (clients == Clients::Served) return slots;
  if (clients == Clients::Apart) {
    if (codec.keeps_error) slots.emplace_back(kOwnErrorSlot);
    if (edge.fragments > 1) slots.emplace_back(kOwnWeightSlot);
    slots.emplace_back(kStartSlot);
    if (edge.by_example()) slots.emplace_back(kExamplesSlot);
    return slots;
  }
  for (int client = 0; edge.keep_slots && client < edge.client_count(); ++client)
    for (const std::string& slot : optimizer) slots.push_back(client_slot(client, slot));
  for (int client = 0; codec.keeps_error && client < edge.client_count(); ++client)
    slots.push_back(client_slot(client, kErrorSlot));
  for (int client = 0; edge.fragments > 1 && client < edge.client_count(); ++client)
    slots.push_back(client_slot(client, kWeightSlot));
  slots.emplace_back(kStartSlot);
  if (edge.by_example()) slots.emplace_back(kExamplesSlot);
  if (outer.robust) {
    for (std::int64_t i = 0; i < edge.per_round(); ++i) slots.push_back(update_slot(i));
  } else {
    slots.emplace_back(kLowSlot);
    slots.emplace_back(kHighSlot);
  }
  return slots;
}

}  // namespace cleave::train
