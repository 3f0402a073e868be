#pragma once

#include <string>
#include <vector>

#include "cleave/engine/compile/compile.h"
#include "cleave/model/family.h"
#include "cleave/ops/compute.h"
#include "cleave/spec/graph.h"

// Short trainings of tiny models on devices of any kind, and what they end with.
namespace cleave::testing {

inline constexpr int kMicrobatches = 4;  ///< of the whole step
inline constexpr int kShards = 2;        ///< of data and tensors
inline constexpr int kSteps = 2;

/// Of two layers.
Graph two_layers(const model::Family* kind, DType dtype);

struct Outcome {
  std::string weights;
  std::vector<double> losses;
  bool as_planned = true;
  std::int64_t on_host = 0;    ///< bytes that messages and sums passed through, all devices
  std::int64_t unplanned = 0;  ///< the same of what no plan has
};

struct Training {
  Graph model;
  engine::Layout layout = {};
  std::vector<std::string> devices = {};
  std::string optimizer = "adamw";
  int tensor_shards = kShards;
  ops::Arithmetic arithmetic = ops::Arithmetic::Exact;
};

/// Trains for kSteps, each device in a thread of its own.
Outcome train(const Training& t);

}  // namespace cleave::testing
