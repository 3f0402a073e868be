#pragma once

namespace cleave::engine {

/// Hears when a step is about to change the state, on every device. Whoever is past NORM knows that
/// all devices came to it, and so have done what they do before it.
class StateWatch {
 public:
  virtual ~StateWatch() = default;
  virtual void before_norm() = 0;
  virtual void before_update() = 0;
  virtual void after_update() = 0;
};

}  // namespace cleave::engine
