#pragma once

#include <cstdint>
#include <string>

#include "cleave/train/config/config.h"
#include "cleave/train/evaluate/inverter.h"

namespace cleave::train {

struct LeakageOptions {
  std::string owner;  ///< a client; empty: the first
  std::string probe;  ///< data that anybody may see, of the kind that the client has
  std::string from;   ///< a checkpoint with the weights; empty: those that the run begins with
  std::int64_t rows = 4096;  ///< to look at, at most
};

/// How much of a client's inputs can be told from what leaves it at the cut of a split run.
struct Leakage {
  std::string owner;
  std::int64_t segments = 0;  ///< of the model, that the client has before the cut
  std::int64_t width = 0;     ///< numbers that leave for each row
  std::string row;            ///< what a row is: "token", "patch" or "sample"
  std::int64_t known = 0;     ///< rows that the inverter learned from
  std::int64_t hidden = 0;    ///< rows that it was tried on
  double distance_correlation = 0;
  Inversion inverter;
};

/// Runs the client's part of the model on the probe, and looks at what comes out: how far distances
/// between inputs are still there (edge::distance_correlation), and what a trained inverter finds.
/// The same bits on every processor. `config` is that of a split run. Throws UserError, DoesNotFit.
Leakage measure_leakage(const Config& config, const LeakageOptions& options);

}  // namespace cleave::train
