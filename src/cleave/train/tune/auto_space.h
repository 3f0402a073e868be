#pragma once

#include "cleave/plan/tune/layout_space.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// Whether the parts of its model read others than the one before them: two towers, features that
/// go to several layers, long skips.
bool is_graph(const Config& config);

/// Whether its model's loss is over all samples of a step.
bool has_loss_over_step(const Config& config);

/// Whether tensor groups of so many devices can share all layers of a model.
bool can_share(const ModelShape& model, std::int64_t tensor);

/// What "auto" in `config` leaves open, of axes, microbatches, schedules, chunks, ZeRO and
/// recompute.
plan::LayoutSpace space_of(const Config& config);

/// `config` with everything that a layout decides; what it leaves to the schedule or to the cutting
/// stays open.
Config with_layout(const Config& config, const plan::Layout& layout);

}  // namespace cleave::train
