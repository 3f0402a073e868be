#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/engine/run/device.h"
#include "cleave/engine/run/state_watch.h"
#include "cleave/train/keep/kept_state.h"

namespace cleave::train {

/// Knows which state a device has at any moment, and keeps copies with other devices up to date, so
/// that after a loss there is a step whose every share exists:
///
///     step s + 1:  F I W …  state s travels  │ NORM │ s is kept │ STEP: s + 1
///                  s − 1 is still kept here, │      │ here too  │
///                  and with the holders      │      │           │
///
/// Nobody passes NORM before all copies of s have arrived everywhere, and until then all have s − 1
/// as well: the holder of a copy in the second version, the device itself as what it kept.
class StateCopies final : public engine::StateWatch {
 public:
  /// All devices of `world` make theirs at the same time; all must outlive it.
  StateCopies(engine::Device& device, const engine::CompiledStep& step,
              const checkpoint::CheckpointLayout& layout, comm::Communicator& world);

  /// The device has the state after `done` steps, all of it. Its copies begin to travel.
  void begin_step(std::int64_t done);

  /// The same, and waits for the copies.
  void copy_now(std::int64_t done);

  /// The state changes in ways that nobody watches, until the step has ended.
  void lose_track() { live_.reset(); }
  void end_step(std::int64_t done) { live_ = done; }

  void before_norm() override;
  void before_update() override;
  void after_update() override;

  /// Everything whole that this device has.
  std::vector<StateVersion> versions() const;

  std::int64_t own_bytes() const { return own_.bytes(); }

 private:
  /// Two versions of another device's state.
  struct Held {
    int device = 0;
    std::vector<Stripe> stripes;
    std::vector<std::int64_t> regions;  ///< elements of each, as its owner has them
    std::span<float> rooms[2];
    std::optional<std::int64_t> steps[2];  ///< what each is the state after; nothing: not whole
    int coming = 0;                        ///< which of them is written next
  };

  static std::span<float> take_room(std::int64_t elements, std::span<float>& room);
  void exchange_descriptions();
  void receive(Held& held);

  std::unique_ptr<comm::Communicator> world_;
  StateImage own_;
  std::span<float> before_;  ///< the own state before the last update; empty: it is not kept
  std::vector<int> holders_;
  std::vector<Held> held_;
  std::vector<comm::Pending> flights_;
  std::optional<std::int64_t> live_;     ///< what own_ is the state after; nothing: it is mixed
  std::optional<std::int64_t> kept_;     ///< the same of before_
  std::optional<std::int64_t> travels_;  ///< the state whose copies are on their way
  std::optional<std::int64_t> arrived_;  ///< the last whose copies have all come
  std::int64_t done_ = 0;                ///< steps before the present one
};

}  // namespace cleave::train
