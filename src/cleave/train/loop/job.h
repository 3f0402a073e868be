#pragma once

#include <optional>
#include <string>

#include "cleave/checkpoint/checkpoint.h"
#include "cleave/train/keep/moving.h"
#include "cleave/train/loop/run.h"
#include "cleave/train/step/client_data.h"
#include "cleave/train/step/round_exchange.h"
#include "cleave/train/step/turns.h"

namespace cleave::train {

/// Everything that the devices of a run share.
struct Job {
  const Config& config;
  const RunOptions& options;
  const data::Data& data;
  const std::optional<ClientData>& clients;  ///< whose data these are, if anybody's
  const engine::CompiledStep& compiled;
  const checkpoint::CheckpointLayout& layout;
  const std::optional<MovedState> moved;  ///< what it begins with, if that is in memory
  const Start start;
  double at_once;  ///< how many devices can compute at the same time
  RunObserver& observer;
  bool own_process;   ///< each device has one, as MPI ranks do
  bool shares_files;  ///< all devices see train.out
  bool keeps_part;    ///< of an owner: it saves what is on its device, and nobody else does
  RoundExchange* exchange = nullptr;  ///< where clients that average are processes of their own
  Turns* turns = nullptr;             ///< where these take turns at the server's layers
  const engine::CompiledStep* held = nullptr;  ///< as TrainingData has it
  std::string data_digest;

  TrainingData training_data() const {
    return {&data, clients ? &*clients : nullptr, exchange, turns, held};
  }
};

/// Whether the state outlasts the run in its devices' memory. Never where owners are on machines of
/// their own: what one has would lie with another.
inline bool keeps_state(const RunOptions& options) {
  return options.kept != nullptr && !options.part;
}

}  // namespace cleave::train
