#include "cleave/engine/compile/traffic.h"

#include <algorithm>

#include "cleave/comm/communicator.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/stage/gradient_norm.h"
#include "cleave/parallel/traffic.h"
#include "cleave/spec/message_slices.h"

namespace cleave::engine {
namespace {

using plan::SegmentState;
using plan::ShareRun;
using schedule::Instruction;
using schedule::Op;

std::int64_t message_bytes(const schedule::Program& program, const Instruction& send) {
  const schedule::Edge& edge = program.edges[send.edge];
  return send.direction == schedule::Direction::Forward ? edge.forward_bytes : edge.backward_bytes;
}

/// A segment that runs no backward pass has no place for a gradient.
bool has_gradients(const plan::StageLayout& layout) {
  using plan::Region;
  return layout.bytes_of(Region::OutputGradient) + layout.bytes_of(Region::InputGradient) +
             layout.input_work + layout.fused_work >
         0;
}

class Traffic {
 public:
  explicit Traffic(const TrafficParts& parts)
      : parts_(parts),
        program_(parts.program),
        topology_(program_),
        rank_(topology_.rank(parts.place)),
        holders_(topology_.holders(parts.place)) {}

  comm::Sent count() {
    for (const Instruction& i : program_.lists[parts_.place]) add(i);
    return sent_;
  }

  comm::Sent count_layers() {
    for (const Instruction& i : program_.lists[parts_.place])
      if (schedule::is_compute(i.op)) add_compute(i);
    return sent_;
  }

  std::vector<std::int64_t> count_collectives() {
    std::vector<std::int64_t> bytes;
    for (const Instruction& i : program_.lists[parts_.place]) {
      const comm::Sent before = sent_;
      if (!schedule::is_compute(i.op) && i.op != Op::Send) add(i);
      bytes.push_back((sent_ - before).total());
    }
    return bytes;
  }

 private:
  const SegmentState& state(const Instruction& i) const {
    return parts_.stages[i.stage]->parameters().layout().segments[std::max(i.segment, 0)];
  }
  std::int64_t own(const ShareRun& run) const {
    return run.borders[rank_ + 1] - run.borders[rank_];
  }

  void add(const Instruction& i) {
    if (schedule::is_compute(i.op)) {
      add_compute(i);
    } else if (i.op == Op::Send) {
      add_send(i);
    } else if (i.op == Op::Wait && i.completes == Op::Receive) {
      add_gathered(i);
    } else if (i.op == Op::Reduce) {
      add_reduce(state(i));
    } else if (i.op == Op::Gather) {
      for (const ShareRun& run : state(i).runs) add_gather(i.stage, run);
    } else if (i.op == Op::Collect) {
      add_collect(*parts_.stages[i.stage]);
    } else if (i.op == Op::Tie) {
      add_tie(i.edge);
    } else if (i.op == Op::Norm) {
      add_norm();
    } else if (i.op == Op::Refresh) {
      add_updated(i.stage);
    }
  }

  /// The place at the other end of a message.
  int other_end(const Instruction& message, bool sends) const {
    const schedule::Edge& edge = program_.edges[message.edge];
    const bool at_source = sends == (message.direction == schedule::Direction::Forward);
    const int replica = topology_.of_replica(parts_.place, message).replica;
    return program_.placement[at_source ? edge.to : edge.from][replica];
  }

  void add_send(const Instruction& i) {
    const int senders = parts_.mesh.devices_at(parts_.place);
    const int receivers = parts_.mesh.devices_at(other_end(i, true));
    for (const MessageSlice& slice : message_slices(senders, receivers, message_bytes(program_, i)))
      if (slice.sender == parts_.mesh.number_of(parts_.device)) sent_.message += slice.bytes();
  }

  /// What came to this device, to every other one at its place.
  void add_gathered(const Instruction& wait) {
    const int senders = parts_.mesh.devices_at(other_end(wait, false));
    const int receivers = parts_.mesh.devices_at(parts_.place);
    if (!gathers_slices(senders, receivers)) return;
    for (const MessageSlice& slice :
         message_slices(senders, receivers, message_bytes(program_, wait)))
      if (slice.receiver == parts_.mesh.number_of(parts_.device))
        sent_.gather += slice.bytes() * (receivers - 1);
  }

  /// What the layers of a segment exchange with the other devices at this place.
  void add_compute(const Instruction& i) {
    const Stage& stage = *parts_.stages[i.stage];
    const int segment = std::max(i.segment, 0);
    const std::int64_t items = parts_.items ? parts_.items(i.microbatch) : SegmentPass::kAllItems;
    if (i.op == Op::Recompute) {
      for (const int layer : stage.layout(segment).again)
        sent_ = sent_ + parallel::tensor_traffic(stage.layer(segment, layer, items)).forward;
      return;
    }
    if (i.op != Op::Forward && !has_gradients(stage.layout(segment))) return;
    const bool weight = i.op == Op::BackwardWeight || i.op == Op::Backward;
    const bool ends_sum =
        weight && DeviceSums(parts_.fold, topology_, StageId{i.stage}, DeviceId{parts_.place})
                      .ends(i.microbatch);
    for (int k = 0; k < std::ssize(stage.segments()[segment].layers); ++k) {
      const LayerSpec& layer = stage.layer(segment, k, items);
      const parallel::TensorTraffic traffic = parallel::tensor_traffic(layer);
      const bool alone = layer.does_without_x && x_is_absent(stage.ports(segment), i);
      if (i.op == Op::Forward && !alone) sent_ = sent_ + traffic.forward;
      if (i.op == Op::BackwardInput || i.op == Op::Backward) sent_ = sent_ + traffic.input;
      if (weight) sent_ = sent_ + traffic.weight;
      if (ends_sum) sent_ = sent_ + traffic.sum;
    }
  }

  bool x_is_absent(const SegmentPorts& ports, const Instruction& i) const {
    return ports.x && ports.x->edge >= 0 &&
           !topology_.carries(ports.x->edge, schedule::Direction::Forward,
                              topology_.of_replica(parts_.place, i));
  }

  void add_reduce(const SegmentState& segment) {
    if (segment.elements == 0) return;
    for (const ShareRun& run : segment.runs)
      if (run.trained) sent_.reduce += (run.end() - run.begin() - own(run)) * size_of(DType::F32);
    if (segment.runs.empty())
      sent_.reduce += parallel::all_reduce_bytes(segment.gradient_bytes(), holders_, rank_);
  }

  void add_gather(int stage, const ShareRun& run) {
    sent_.gather += own(run) * (holders_ - 1) *
                    size_of(parts_.stages[stage]->parameters().layout().options.dtype);
  }

  /// Its own rows, to every other device of the stage.
  void add_collect(const Stage& stage) {
    const TensorSpec& x = stage.segments().back().layers.front().x;
    sent_.gather += x.shape.elements() * size_of(x.dtype) * topology_.microbatches(parts_.place) *
                    (holders_ - 1);
  }

  /// Replicas send each other what they updated.
  void add_updated(int stage) {
    for (const SegmentState& segment : parts_.stages[stage]->parameters().layout().segments) {
      for (const ShareRun& run : segment.runs)
        if (run.trained && !run.borrowed) add_gather(stage, run);
    }
  }

  /// Squares of blocks, where replicas have shares of them; then what all devices know.
  void add_norm() {
    std::int64_t numbers = comm::combine_messages(parts_.device, parts_.devices) *
                           NormNumbers::count(program_, parts_.pieces);
    for (const int stage : topology_.stages[parts_.place]) {
      const plan::StateLayout& layout = parts_.stages[stage]->parameters().layout();
      if (layout.shares_state())
        numbers += comm::combine_messages(rank_, holders_) * GradientNorm::block_count(layout);
    }
    sent_.numbers += numbers * static_cast<std::int64_t>(sizeof(double));
  }

  void add_tie(int index) {
    const schedule::Tie& tie = program_.ties[index];
    const int replica = topology_.replica[parts_.place];
    const int second = program_.placement[tie.second][replica];
    if (second == program_.placement[tie.first][replica]) return;
    // The later use comes first in the pair.
    const std::int64_t bytes = GradientSync::tied_bytes(
        parts_.stages[tie.second]->parameters().layout(), parts_.tie_names[index], rank_);
    sent_.reduce += parallel::all_reduce_bytes(bytes, 2, parts_.place == second ? 0 : 1);
  }

  const TrafficParts& parts_;
  const schedule::Program& program_;
  schedule::Topology topology_;
  int rank_;     ///< of the devices that hold its stages
  int holders_;  ///< how many they are
  comm::Sent sent_;
};

}  // namespace

TrafficParts traffic_parts(const CompiledStep& step, const schedule::Program& program,
                           std::span<const Stage* const> stages, int device) {
  return {.program = program,
          .mesh = step.mesh,
          .stages = stages,
          .tie_names = step.tie_names,
          .fold = step.fold,
          .pieces = std::ssize(step.pieces),
          .place = step.place_of(device),
          .device = device,
          .devices = step.devices()};
}

comm::Sent planned_traffic(const TrafficParts& parts) {
  return Traffic(parts).count();
}

comm::Sent layer_traffic(const TrafficParts& parts) {
  return Traffic(parts).count_layers();
}

std::vector<std::int64_t> planned_collectives(const TrafficParts& parts) {
  return Traffic(parts).count_collectives();
}

comm::Sent emulated_traffic(const schedule::Program& program, PlaceId place, DeviceId device,
                            int devices) {
  comm::Sent sent{.numbers = comm::combine_messages(device, devices) *
                             static_cast<std::int64_t>(sizeof(double))};
  for (const Instruction& i : program.lists[place])
    if (i.op == Op::Send) sent.message += message_bytes(program, i);
  return sent;
}

}  // namespace cleave::engine
