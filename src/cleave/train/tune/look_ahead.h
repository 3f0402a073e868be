#pragma once

#include <functional>

#include "cleave/plan/tune/prediction.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// Links with less latency than this, in seconds, are those within a machine or a rack: a receive
/// that is posted one instruction ahead hides it, and clocks cannot tell such links apart.
inline constexpr double kWorthHiding = 1e-3;

/// True if parallel.receive_ahead or parallel.early is "auto", in a layout that could use it.
bool leaves_look_ahead_open(const Config& config);

/// What a config comes to in which neither is "auto".
using WeighRun = std::function<plan::Prediction(const Config&)>;

/// The run that hides what can be hidden of the latency of its links: of those that fit and are
/// about as fast as the fastest, the one that begins the fewest microbatches early, and of these
/// the one whose receives are posted the least ahead. `weigh` is asked about some twenty of them.
plan::Prediction hide_latency(const Config& config, const WeighRun& weigh);

/// `config` with the look-ahead of `layout`.
Config with_look_ahead(Config config, const plan::Layout& layout);

}  // namespace cleave::train
