#pragma once

#include <memory>

#include "cleave/comm/local/local_world.h"
#include "cleave/data/dataset.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// Whether the server of rounds looks at a set of its own; what clients hold out is with them.
bool server_evaluates(const data::Data& data);

/// What the server of rounds holds, whose clients train elsewhere: the weights, the slots of the
/// outer rule, and what evaluating takes, if server_evaluates().
engine::CompiledStep compile_server(const Config& config, const data::Data& data);

/// The same where clients take turns at the server's layers, of the layers of `step`, which they
/// run together, that are theirs. Throws DoesNotFit, with the numbers, if the server has no room
/// for both.
engine::CompiledStep compile_held(const Config& config, const engine::CompiledStep& step);

/// The clients' layers as such a server holds them: the device of their place in a plan that trains
/// nothing and whose program is never run.
class HeldLayers {
 public:
  /// `held` must outlive it.
  explicit HeldLayers(const engine::CompiledStep& held);

  engine::Device& device() { return device_; }

 private:
  comm::LocalWorld pair_{2};
  std::unique_ptr<comm::Communicator> seat_;
  engine::Device device_;
};

}  // namespace cleave::train
