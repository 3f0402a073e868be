#include "cleave/train/step/fragments.h"

#include <algorithm>
#include <iterator>

#include "cleave/base/check.h"
#include "cleave/train/step/round_slots.h"
#include "cleave/train/step/slot_elements.h"

namespace cleave::train {

Fragments::Fragments(const Config& config, const Graph& model) : count_(config.edge.fragments) {
  require(count_ <= std::ssize(model.segments), "edge.fragments is ", count_,
          ", and the model has ", model.segments.size(), " segments to share out; take fewer");
  for (std::size_t s = 0; s < model.segments.size(); ++s)
    for (const LayerSpec& layer : model.segments[s].layers)
      for (const ParameterSpec& parameter : layer.parameters)
        for (const Piece& piece : parameter.pieces)
          of_.emplace(piece.name, static_cast<std::int64_t>(s) % count_);
}

RoundExchange::Tensors Fragments::of_round(const RoundExchange::Tensors& tensors,
                                           std::int64_t round) const {
  return of_rounds(tensors, round, round + 1);
}

RoundExchange::Tensors Fragments::of_rounds(const RoundExchange::Tensors& tensors,
                                            std::int64_t first, std::int64_t end) const {
  RoundExchange::Tensors found;
  std::ranges::copy_if(tensors, std::back_inserter(found), [&](const engine::TensorState* tensor) {
    // The first round from `first` on that takes the tensor's fragment.
    const std::int64_t wait = (fragment_of(tensor->name) - first % count_ + count_) % count_;
    return first + wait < end;
  });
  return found;
}

ClientWeights::ClientWeights(const Fragments& fragments, const RoundExchange::Tensors& tensors,
                             const RoundExchange* exchange, int clients)
    : streams_(fragments.streams() && (exchange == nullptr || !exchange->is_server())),
      tensors_(tensors),
      apart_(exchange != nullptr),
      first_(apart_ ? exchange->own().value_or(0) : 0),
      end_(apart_ ? first_ + 1 : clients) {}

std::string ClientWeights::slot(int client) const {
  return apart_ ? std::string(kOwnWeightSlot) : client_slot(client, kWeightSlot);
}

void ClientWeights::begin(int client) const {
  if (!streams_) return;
  for (const engine::TensorState* tensor : tensors_)
    copy_elements(*tensor, slot_of(*tensor, slot(client)), tensor->master);
}

void ClientWeights::keep(int client) const {
  if (!streams_) return;
  for (const engine::TensorState* tensor : tensors_)
    copy_elements(*tensor, tensor->master, slot_of(*tensor, slot(client)));
}

void ClientWeights::join(const RoundExchange::Tensors& averaged) const {
  if (!streams_) return;
  for (const engine::TensorState* tensor : averaged) {
    for (int client = first_; client < end_; ++client)
      copy_elements(*tensor, tensor->master, slot_of(*tensor, slot(client)));
    if (apart_) copy_elements(*tensor, tensor->master, slot_of(*tensor, kStartSlot));
  }
}

}  // namespace cleave::train
