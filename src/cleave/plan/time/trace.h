#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/base/collective_kind.h"
#include "cleave/schedule/program.h"

namespace cleave::plan {

/// What a device (or a link) did during a span.
enum class SpanKind : std::uint8_t {
  Compute,     ///< F I W B R
  Update,      ///< STEP
  Collective,  ///< GATHER REDUCE REFRESH COLLECT TIE NORM, from the arrival of the last member on
  Wait,        ///< blocked: in a WAIT, for an implied message, or for members of a collective
  Transfer,    ///< a message on its way; `device` is the sender, and may compute meanwhile
};

/// What kind of span an instruction of this op fills; SEND, RECV and WAIT count as waits.
SpanKind span_kind(schedule::Op op);

/// One box of a timeline.
struct Span {
  std::int32_t device = 0;
  std::int32_t peer = -1;  ///< Transfer: the receiver
  SpanKind kind = SpanKind::Compute;
  double begin = 0;  ///< since the start of the step, in Trace::unit
  double end = 0;
  /// Wait: what had to wait; Transfer: the SEND or producer.
  schedule::Instruction instruction = {};

  friend bool operator==(const Span&, const Span&) = default;
};

/// A collective on its way between devices, while the device computed or waited for it. Those that
/// compute instructions post are inside layers, over the tensor axis.
struct CollectiveSpan {
  std::int32_t device = 0;
  CollectiveKind kind = CollectiveKind::AllReduce;
  double begin = 0;          ///< posted, in Trace::unit
  double end = 0;            ///< complete
  double waited_before = 0;  ///< by `begin`, time in which the device was at its messages
  double waited = 0;         ///< of end - begin, time in which it was; in the rest it computed
  std::int64_t bytes = 0;    ///< that the device sent
  schedule::Instruction instruction = {};  ///< that posted it

  double hidden() const { return std::max(0.0, end - begin - waited); }
};

/// A timeline of one step, predicted or measured: one format, so that the two can be compared.
/// Among the spans of one device, those other than Transfer are in order of time and do not
/// overlap.
struct Trace {
  std::string name = {};   ///< "1f1b, predicted"
  std::string unit = "s";  ///< "s", or empty for the plain numbers of `cleave schedule`
  int devices = 0;
  std::vector<Span> spans = {};
  std::vector<CollectiveSpan> exchanges = {};  ///< measured; of one device in the order of `begin`
};

struct DeviceSummary {
  double compute = 0;           ///< F I W B R
  double busy = 0;              ///< compute and STEP
  double collective = 0;        ///< inside collectives, once all members are there
  double wait = 0;              ///< recorded as blocked; idle time after the last span is not in it
  double first_start = 0;       ///< of compute
  double last_end = 0;          ///< of compute
  double peak_activations = 0;  ///< microbatches alive from F to W; one of V chunks counts 1/V
  std::int64_t peak_bytes = 0;  ///< largest sum of live buffers; 0 without a memory plan
};

/// How much of what was on its way was on its way while the device computed.
struct Overlap {
  double in_flight = 0;  ///< time during which at least one of them was
  double hidden = 0;     ///< of that, time inside compute

  /// 1 if nothing was on its way.
  double share() const { return in_flight > 0 ? hidden / in_flight : 1; }
};

/// How far the `exchanges` of one device whose instruction `counts` were hidden.
Overlap overlap(std::span<const CollectiveSpan> exchanges, bool (*counts)(schedule::Op));

/// What a timeline comes to.
///
/// `work` is the compute of the busiest device. With equal devices that is m(F + I + W), as in the
/// zero-bubble paper; with unequal ones `bubble_rate` is what the schedule loses to the best
/// conceivable order on this partition, never negative, and the imbalance of the partition shows in
/// `idle` only. Wherever a bubble is named, in pictures, plans and reports, it is `bubble_rate`.
struct Summary {
  double makespan = 0;     ///< from the start of the step to the last end of any span
  double cost = 0;         ///< max over devices of last_end - first_start
  double work = 0;         ///< max over devices of compute
  double bubble_rate = 0;  ///< (cost - work) / cost
  double idle = 0;         ///< 1 - sum of busy / (devices * makespan)
  std::vector<DeviceSummary> devices = {};
};

/// When the last span of a timeline ends.
double makespan(const Trace& trace);

/// `program` supplies peak activations and bytes, `trace` the times.
Summary summarise(const schedule::Program& program, const Trace& trace);

/// [device] -> microbatches alive at once between their F and the end of their W (or B).
std::vector<double> peak_activations(const schedule::Program& program);

/// [device] -> the largest sum of the bytes of buffers alive at one instruction, each rounded up to
/// the alignment; what no packing can go below. Zeros without a memory plan.
std::vector<std::int64_t> live_bytes(const schedule::Program& program);

}  // namespace cleave::plan
