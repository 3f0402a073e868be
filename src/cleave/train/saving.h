#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "cleave/comm/communicator.h"
#include "cleave/runtime/device.h"
#include "cleave/train/checkpoint.h"
#include "cleave/train/checkpoint_reader.h"
#include "cleave/train/config.h"

namespace cleave::train {

/// The tensors of a model in the order of checkpoints: by name.
CheckpointLayout checkpoint_layout(const ModelSpec& model);

/// Saves the state after `step` updates, all devices together. `world` is null for one device
/// alone; replicas other than the first only wait.
void save(const Config& config, const CheckpointLayout& layout, std::int64_t step, int replica,
          runtime::Device& device, comm::Communicator* world);

enum class Load : std::uint8_t { Everything, WeightsOnly };

/// Reads this device's share of a checkpoint, whatever layout wrote it. Throws UserError if it is
/// of another architecture.
void load(const CheckpointReader& reader, const CheckpointLayout& layout, Load what,
          runtime::Device& device);

}  // namespace cleave::train
