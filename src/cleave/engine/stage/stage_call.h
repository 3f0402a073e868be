#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cleave/engine/stage/stage.h"

namespace cleave::engine {

/// The arguments of one call of a layer; `room` is for the views of its kept tensors.
class Stage::Call {
 public:
  /// F.
  Call(std::span<View> room, const Entry& entry, const SegmentPass& pass)
      : spec_(entry.layer->spec()), frame_(pass.frame), room_(room) {
    call_.microbatch = pass.microbatch;
    if (entry.first != nullptr) {
      set_forward(*entry.first);
    } else {
      set_forward(*entry.places);
    }
    set_collected(pass);
  }

  /// R, I and W.
  Call(std::span<View> room, const Entry& entry, const SegmentPass& pass,
       const plan::BackwardPlaces& backward, std::int64_t gradient_shift = 0)
      : spec_(entry.layer->spec()), frame_(pass.frame), room_(room) {
    set_forward(*entry.places);
    call_.microbatch = pass.microbatch;
    call_.dy = gradient_at(frame_, backward.dy, spec_.y);
    call_.dx = gradient_at(frame_, backward.dx, spec_.x);
    call_.add = view_at(frame_, backward.add, spec_.x);
    call_.gradient = pass.gradient;
    call_.ends_sum = pass.ends_sum;
    call_.sum_shift = pass.replica * plan::bytes_of_sums(spec_);
    call_.gradient_shift = gradient_shift;
    call_.loss_scale = pass.loss_scale;
    const std::size_t kept = backward.kept_by_input.size();  // none in R
    const std::span<View> views =
        room_.subspan(spec_.reads.size() + spec_.kept_by_forward.size(), kept);
    for (std::size_t i = 0; i < kept; ++i)
      views[i] = view_at(frame_, backward.kept_by_input[i], spec_.kept_by_input[i]);
    call_.kept_by_input = views;
    set_read_gradients(*entry.places, spec_.reads.size() + spec_.kept_by_forward.size() + kept);
    set_collected(pass);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  operator const LayerCall&() const { return call_; }
  const LayerCall* operator->() const { return &call_; }

 private:
  void set_collected(const SegmentPass& pass) {
    const std::size_t count = spec_.collected.size();
    if (count == 0) return;
    const std::span<View> views = room_.last(count);
    std::byte* at = pass.collected;
    for (std::size_t i = 0; i < count; ++i) {
      views[i] = View(at, spec_.collected[i].dtype, spec_.collected[i].shape);
      at += spec_.collected[i].bytes();
    }
    call_.collected = views;
    call_.first_row = pass.number * spec_.x.shape[0];
  }

  template <class Places>
  void set_forward(const Places& places) {
    call_.x = view_at(frame_, places.x, spec_.x);
    call_.y = view_at(frame_, places.y, spec_.y);
    call_.skip = view_at(frame_, places.skip, spec_.x);
    const std::size_t reads = spec_.reads.size();
    for (std::size_t i = 0; i < reads; ++i)
      room_[i] = view_at(frame_, places.reads[i], spec_.reads[i].tensor);
    call_.reads = room_.first(reads);
    const std::size_t kept = spec_.kept_by_forward.size();
    const std::span<View> views = room_.subspan(reads, kept);
    for (std::size_t i = 0; i < kept; ++i)
      views[i] = view_at(frame_, places.kept_by_forward[i], spec_.kept_by_forward[i].tensor);
    call_.kept_by_forward = views;
  }

  /// The gradient of what arrives at a port stands right after it in the frame.
  void set_read_gradients(const plan::LayerPlaces& places, std::size_t first) {
    const std::span<View> views = room_.subspan(first, spec_.reads.size());
    for (std::size_t i = 0; i < views.size(); ++i) {
      const plan::Place& at = places.reads[i];
      const bool arrives = at.region == plan::Region::Port;
      views[i] =
          arrives ? view_at(frame_, {at.region, at.offset + 1}, spec_.reads[i].tensor) : View();
    }
    call_.read_gradients = views;
  }

  const LayerSpec& spec_;
  const Frame& frame_;
  std::span<View> room_;
  LayerCall call_;
};

}  // namespace cleave::engine
