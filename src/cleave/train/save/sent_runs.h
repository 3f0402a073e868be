#pragma once

#include <cstdint>

#include "cleave/train/save/saving.h"

namespace cleave::train {

// Saving where only the first device sees the directory of checkpoints: the others send it what
// they would have written, one after another.

/// Every device but the first calls it.
void send_runs(const SavePoint& at);

/// The first device calls it: it receives what all others send, and writes it in their names.
void write_sent_runs(const SavePoint& at, std::int64_t step);

}  // namespace cleave::train
