#pragma once

#include <filesystem>
#include <string>

#include "cleave/checkpoint/reader.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// Throws UserError, which names an older checkpoint if there is one, unless all files of
/// `checkpoint` that are to be loaded are whole.
void check_sound(const std::filesystem::path& checkpoint, checkpoint::Load what);

/// A resumed run has the model of its checkpoint. Shapes alone do not tell models apart: the number
/// of heads, for one, does not show in them. And slots of one optimizer are no use to another.
void check_same_model(const Config& config, const checkpoint::CheckpointReader& checkpoint);

/// Positions that a model has learned are as many as its context is long, which follows
/// train.sequence where it is not given.
void check_same_context(const Config& config, const checkpoint::CheckpointReader& checkpoint);

/// Shapes do not show how positions turn or what a token sees, so that weights could become another
/// model without anyone noticing.
void check_same_computation(const Config& config, const checkpoint::CheckpointReader& checkpoint);

/// "train.lr 0.001 (was 0.01), train.batch 8 (was 4)": without which the weights would be those of
/// an undisturbed run. `data` is the digest of the data of this run.
std::string changed_since(const checkpoint::CheckpointReader& checkpoint, const Config& config,
                          const std::string& data);

}  // namespace cleave::train
