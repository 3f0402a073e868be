#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>

#include "cleave/checkpoint/checkpoint.h"
#include "cleave/checkpoint/reader.h"
#include "cleave/comm/communicator.h"
#include "cleave/engine/run/device.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// The tensors of a model in the order of checkpoints: by name.
checkpoint::CheckpointLayout checkpoint_layout(const Graph& model);
/// The same with the shapes that Hugging Face's tools give to the tensors of `shape`.
checkpoint::CheckpointLayout checkpoint_layout(const Graph& model, const ModelShape& shape);

/// `own` with the parameters `held` by the same process for others as these are held there.
checkpoint::CheckpointLayout joined_layout(const checkpoint::CheckpointLayout& own,
                                           const checkpoint::CheckpointLayout& held,
                                           const std::set<std::string>& own_tensors);

/// The config of the run that saved it; of a Hugging Face directory one with its model. Throws
/// UserError as parse_config does.
Config config_of(const checkpoint::CheckpointReader& checkpoint);

/// What is saved, and where to: one device's view.
struct SavePoint {
  const Config* config = nullptr;
  const checkpoint::CheckpointLayout* layout = nullptr;
  engine::Device* device = nullptr;
  engine::Device* held = nullptr;  ///< what this process holds for others beside it, if anything
  comm::Communicator* world = nullptr;
  bool shares_files = true;  ///< else only the first device sees the directory
  std::string data = {};     ///< digest of the data, as CheckpointState has it

  std::filesystem::path root() const;
  int index() const { return world->rank(); }
  bool is_first() const { return index() == 0; }
};

/// Saves the state after `step` updates, all devices together, and waits for it. Replicas that
/// share nothing only wait for the first.
void save(const SavePoint& at, std::int64_t step);

/// How long what is saved stays as it is: what is not trained never changes.
enum class Lasting : std::uint8_t { OneStep, Always };

/// What this device saves, in runs of consecutive elements of a parameter (its place in the
/// layout).
using SavedRun = std::function<void(checkpoint::Part part, std::size_t parameter,
                                    std::int64_t first, std::span<const float> elements)>;
void for_each_saved_run(const SavePoint& at, Lasting lasting, const SavedRun& visit);

/// The first device's last act: everything is written, and becomes a checkpoint.
void commit(const SavePoint& at, std::int64_t step);

/// Whether a tensor is a parameter of `layout`.
bool is_in(const checkpoint::CheckpointLayout& layout, const std::string& tensor);

/// Reads this device's share of a checkpoint, as far as `reader` does, whatever layout wrote it;
/// tensors that are not in `layout` stay as they are.
/// Throws UserError if it is of another architecture.
void load(const checkpoint::CheckpointReader& reader, const checkpoint::CheckpointLayout& layout,
          engine::Device& device);

}  // namespace cleave::train
