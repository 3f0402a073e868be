#pragma once

#include <cstdint>
#include <vector>

#include "cleave/plan/time/costs.h"
#include "cleave/plan/time/trace.h"
#include "cleave/schedule/program.h"

namespace cleave::plan {

/// Whether messages of one device to another share the wire.
enum class Links : std::uint8_t {
  Independent,  ///< every message has the link to itself
  /// The bytes of one at a time per direction, in the order in which they can start; on the rest of
  /// their way, the latency, there may be many.
  Serialised,
};

/// Which spans a trace keeps. Without transfers a trace has about half the spans.
enum class Record : std::uint8_t { All, DevicesOnly };

/// Whom a device hears from in a round of NORM, and how long the numbers take from there.
struct Hearing {
  int from = -1;  ///< -1: from nobody
  double seconds = 0;
};

struct SimulateOptions {
  Links links = Links::Independent;
  Record record = Record::All;

  /// How many devices, whole ones, can compute at the same time where devices share cores; 0: all.
  /// The others queue; a device keeps its core until it blocks.
  double at_once = 0;

  /// So much of what goes from one device to another needs no credit. Where it is enough for all
  /// messages of a step over an edge, each leaves when it is sent, whether its RECV is posted or
  /// not. Counts only on links that have credits.
  std::int64_t early_bytes = 0;

  /// What of NORM its numbers are on their way to the other devices. Whoever comes last does not
  /// wait for it, and all others do. Where it is not 0, a TIE is two ways of half its time each,
  /// and the first of its two devices waits for the second's way only.
  double norm_way = 0;

  /// [round][device] the rounds in which the numbers of NORM go round, where that is known; empty:
  /// those of every device take norm_way to every other.
  std::vector<std::vector<Hearing>> norm_rounds = {};

  /// [device] when it begins; empty: all at 0.
  std::vector<double> starts = {};
};

/// Runs `program` on virtual time, devices in order.
///
/// SEND and RECV post and take no time; a message starts when both are posted (no buffering but
/// SimulateOptions::early_bytes), the RECV by its credit, and takes latency + bytes * per_byte;
/// WAIT blocks until it has arrived. An edge between devices on which the program has no SEND is
/// implied: the message leaves when its producer ends and the consumer waits for it. A collective
/// starts when all its members have come. REDUCE, GATHER, REFRESH and COLLECT only post, and their
/// WAIT blocks (simulation/collectives.h). OUT and IN go on beside compute, one after another. Time
/// grows linearly with instructions, but for pieces of STEP, each of which counts the others, and
/// for ways that replicas share, each turn of which looks at all of them.
///
/// Throws UserError if the program stops making progress, naming who waits where.
Trace simulate(const schedule::Program& program, const Costs& costs,
               const SimulateOptions& options = {});

}  // namespace cleave::plan
