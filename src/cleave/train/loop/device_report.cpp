#include "cleave/train/loop/device_report.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "cleave/base/median.h"

namespace cleave::train {

namespace {

constexpr std::size_t kRecent = 4096;

/// Seconds of a transfer in which the device itself computed.
double computed_in(const plan::Span& transfer, std::span<const plan::Span> spans) {
  double seconds = 0;
  for (const plan::Span& span : spans)
    if (span.kind == plan::SpanKind::Compute)
      seconds +=
          std::max(0.0, std::min(span.end, transfer.end) - std::max(span.begin, transfer.begin));
  return seconds;
}

}  // namespace

void RecentValues::note(double value) {
  if (values_.size() < kRecent) return values_.push_back(value);
  values_[next_] = value;
  next_ = (next_ + 1) % kRecent;
}

double RecentValues::median() const {
  return values_.empty() ? 0 : cleave::median(values_);
}

void StepTimes::note(double seconds, std::span<const plan::Span> spans,
                     std::span<const plan::CollectiveSpan> exchanges, double held_up) {
  ++steps_;
  seconds_.note(seconds);
  double busy = -held_up;
  double wait = held_up;
  double compute = 0;
  double first = std::numeric_limits<double>::infinity();
  double last = 0;
  double moving = 0;
  double awaited = 0;  // of it, by a device that had nothing else to do
  for (const plan::Span& span : spans) {
    const double length = span.end - span.begin;
    if (span.kind == plan::SpanKind::Transfer) {
      moving += length;
      if (schedule::is_message_move(span.instruction)) awaited += length - computed_in(span, spans);
      continue;
    }
    if (schedule::is_move(span.instruction)) awaited += length;
    if (span.kind == plan::SpanKind::Compute) {
      compute += length;
      first = std::min(first, span.begin);
      last = std::max(last, span.end);
    }
    const bool works = span.kind == plan::SpanKind::Compute || span.kind == plan::SpanKind::Update;
    (works ? busy : wait) += length;
  }
  compute_.note(compute);
  extent_.note(std::max(0.0, last - first));
  busy_.note(busy);
  wait_.note(wait);
  last_wait_ = wait;
  const plan::Overlap reductions =
      plan::overlap(exchanges, [](schedule::Op op) { return op == schedule::Op::Reduce; });
  const plan::Overlap tensor = plan::overlap(exchanges, &schedule::is_compute);
  reduce_.note(reductions.in_flight);
  reduce_hidden_.note(reductions.share());
  tensor_.note(tensor.in_flight);
  tensor_hidden_.note(tensor.share());
  moves_.note(moving);
  moves_hidden_.note(moving > 0 ? std::max(0.0, 1 - awaited / moving) : 1);
}

void StepTimes::tell(DeviceReport& report) const {
  const auto share = [](const RecentValues& values) {
    return values.empty() ? 1 : values.median();
  };
  report.compute = compute_.median();
  report.extent = extent_.median();
  report.busy = busy_.median();
  report.wait = wait_.median();
  report.reduce = reduce_.median();
  report.reduce_hidden = share(reduce_hidden_);
  report.tensor = tensor_.median();
  report.tensor_hidden = share(tensor_hidden_);
  report.moves = moves_.median();
  report.moves_hidden = share(moves_hidden_);
}

double bubble_of(std::span<const DeviceReport> devices) {
  double cost = 0;
  double work = 0;
  for (const DeviceReport& device : devices) {
    cost = std::max(cost, device.extent);
    work = std::max(work, device.compute);
  }
  return cost > 0 ? std::max(0.0, (cost - work) / cost) : 0;
}

double idle_of(std::span<const DeviceReport> devices, double step_seconds) {
  double busy = 0;
  for (const DeviceReport& device : devices) busy += device.busy;
  const double room = static_cast<double>(devices.size()) * step_seconds;
  return room > 0 ? std::max(0.0, 1 - busy / room) : 0;
}

std::vector<DeviceReport> gather_reports(const DeviceReport& mine, int device, int devices,
                                         comm::Communicator& world) {
  static_assert(std::is_trivially_copyable_v<DeviceReport>);
  std::vector<DeviceReport> all(static_cast<std::size_t>(devices));
  all[device] = mine;
  std::vector<std::size_t> borders;
  for (int d = 0; d <= devices; ++d) borders.push_back(d * sizeof(DeviceReport));
  world.all_gather(std::as_writable_bytes(std::span(all)), borders).wait();
  return all;
}

}  // namespace cleave::train
