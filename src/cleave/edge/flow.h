#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/edge/owner.h"
#include "cleave/schedule/program.h"

namespace cleave::edge {

/// What the flow through a program depends on of a stage's layers.
struct StageUse {
  std::string input;             ///< name of what it loads to train on; empty: nothing
  std::string label;             ///< name of what it loads to predict; empty: nothing
  std::int64_t input_bytes = 0;  ///< of a microbatch
  std::int64_t label_bytes = 0;
  bool product = true;  ///< without one, what it gives counts as what it was given
};

/// A verified program with whom its places belong to. All of it is borrowed.
struct OwnedProgram {
  const schedule::Program* program = nullptr;
  std::span<const Owner> owners;
  std::vector<int> owner_of;     ///< [place] -> owner
  std::vector<int> data_of;      ///< [replica] -> the owner whose data it trains on
  std::vector<int> labels_of;    ///< [replica] -> the owner whose labels these are
  std::vector<StageUse> stages;  ///< [stage]
  /// [place][instruction of its list] bytes that it sends to those whom the instruction joins.
  std::vector<std::vector<std::int64_t>> collected;
};

/// One kind of tensor that goes from one owner to others.
struct Crossing {
  int from = 0;
  std::vector<int> to;  ///< ascending; several where a collective joins them
  Class what = Class::Statistic;
  std::vector<int> origins;  ///< owners whose data of this step it was made of, ascending
  std::int64_t bytes = 0;    ///< per step
  std::string path;          ///< how the first of them came about

  friend bool operator==(const Crossing&, const Crossing&) = default;
};

/// Everything that leaves an owner in a step, by sender, receiver and class.
///
/// Follows class and origin of every tensor through the instructions: what a stage loads, what its
/// F makes of that and of what arrives, what I hands back, what replicas add up. Weights count as
/// their holder's own: what earlier steps left in them is not followed.
std::vector<Crossing> flow(const OwnedProgram& owned);

/// One sentence for each crossing that its sender does not allow, with its path; empty: all are
/// allowed.
std::vector<std::string> refusals(std::span<const Crossing> crossings,
                                  std::span<const Owner> owners);

}  // namespace cleave::edge
