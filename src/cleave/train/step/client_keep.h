#pragma once

#include <cstdint>
#include <filesystem>

#include "cleave/train/config/config.h"
#include "cleave/train/step/round_exchange.h"

namespace cleave::train {

/// What a client on a machine of its own keeps from round to round: the slots of its optimizer
/// (edge.keep_slots), what its codec left out, and its weights where rounds average a part of them.
/// It stays with the client, in train.out of its process, under the number of rounds that it took
/// part in.
///
/// It is saved before the update of a round is sent, and what was there before stays until the
/// round after: whether the server has taken the update up or the round begins again, the client
/// has what belongs to it.
class ClientKeep {
 public:
  /// `tensors` must outlive it.
  ClientKeep(const Config& config, const RoundExchange::Tensors& tensors);

  /// As after so many rounds of its own; 0: afresh. Throws UserError if that is not there.
  void load(std::int64_t turns);
  void save(std::int64_t turns);

 private:
  /// Whether a slot lasts from one of the client's rounds to the next.
  bool lasts(const engine::SlotState& slot) const;
  std::filesystem::path path_of(std::int64_t turns) const;
  void forget_before(std::int64_t turns) const;

  const RoundExchange::Tensors& tensors_;
  bool keeps_slots_;
  bool keeps_error_;
  bool keeps_weights_;
  std::filesystem::path directory_;
};

}  // namespace cleave::train
