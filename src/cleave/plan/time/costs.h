#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::plan {

/// What one stage takes per microbatch, in the unit of the costs. A segment takes an equal share,
/// unless Costs::segments says otherwise.
struct StageCosts {
  double forward = 0;    ///< F
  double input = 0;      ///< I
  double weight = 0;     ///< W; a B takes input + weight, and so does W where there is no I
  double recompute = 0;  ///< R

  double gather = 0;       ///< GATHER or REFRESH, once all members are there
  double gather_work = 0;  ///< of it, what occupies the device: copying
  double reduce = 0;       ///< REDUCE, once all members are there; per step
  double reduce_work = 0;  ///< of it, what occupies the device: copying and adding
  double collect = 0;      ///< COLLECT, once all members are there

  /// F, I and W together.
  double passes() const { return forward + input + weight; }

  /// Adds F, I and W of `count` stages like `other`.
  void add_passes(const StageCosts& other, double count = 1) {
    forward += count * other.forward;
    input += count * other.input;
    weight += count * other.weight;
  }
};

/// What a message takes on its way between two devices. Within a device it takes nothing.
struct LinkCosts {
  double latency = 0;
  double per_byte = 0;
  /// From a RECV until the sender knows of it and may begin; over a network another latency.
  double credit = 0;
  /// Bytes that a link which was idle lets pass at once. What limits a rate mostly limits its mean,
  /// and room for this many bytes comes back at the rate while nothing is sent.
  double burst = 0;
  /// What a byte takes on a way that the replicas of the link have in common, such as the line of a
  /// server; 0: each has a way of its own.
  double shared_per_byte = 0;

  double seconds(std::int64_t bytes) const {
    return latency + static_cast<double>(bytes) * per_byte;
  }
};

/// The slower of two links, in each respect.
inline LinkCosts slower(const LinkCosts& a, const LinkCosts& b) {
  return {.latency = std::max(a.latency, b.latency),
          .per_byte = std::max(a.per_byte, b.per_byte),
          .credit = std::max(a.credit, b.credit),
          .burst = std::min(a.burst, b.burst),
          .shared_per_byte = std::max(a.shared_per_byte, b.shared_per_byte)};
}

/// How long everything in a program takes. Plain data, from a profile or from a model of hardware.
struct Costs {
  std::string unit = "s";               ///< "s", or empty for plain numbers
  std::vector<StageCosts> stages = {};  ///< [stage]
  /// [stage][segment] F, I and W of each, where they are known to differ; empty: equal shares.
  std::vector<std::vector<StageCosts>> segments = {};
  std::vector<LinkCosts> edges = {};    ///< [edge]; empty: messages take no time
  std::vector<double> ties = {};        ///< [tie] TIE; empty: nothing
  std::vector<double> steps = {};       ///< [device] STEP; empty: nothing
  std::vector<LinkCosts> outside = {};  ///< [device] OUT and IN; empty: they take no time
  double norm = 0;                      ///< NORM, once all devices are there
};

/// The costs of `cleave schedule --cost`: per device and microbatch, and a latency per message.
struct UniformCosts {
  double f = 1;
  double i = 1;
  double w = 1;
  double comm = 0;
};

/// Each of the V stages of a device takes 1/V of the device's cost; R takes what F takes.
Costs uniform_costs(const schedule::Program& program, const UniformCosts& uniform);

/// How long `instruction` takes, a collective once all members are there: zero for messages and
/// FREE.
double duration(const schedule::Program& program, const Costs& costs, int device,
                const schedule::Instruction& instruction);

/// What of a GATHER, REDUCE or REFRESH occupies each of its members; nothing of a COLLECT.
double own_work(const schedule::Program& program, const Costs& costs,
                const schedule::Instruction& instruction);

/// Whose devices stand for all replicas of a link: the first replica for which the ends of `edge`
/// are on two devices; 0 if none has them there.
int measured_replica(const schedule::Program& program, const schedule::Edge& edge);

/// Throws UserError unless the tables have the program's sizes and every number is finite and not
/// negative.
void check(const schedule::Program& program, const Costs& costs);

}  // namespace cleave::plan
