#pragma once

#include <utility>
#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::plan {

/// Buffers of one device, as they are found.
class BufferList {
 public:
  BufferList(const schedule::Program& program, int device);

  int device() const { return device_; }
  int end() const { return end_; }  ///< the last instruction of the device

  /// Leaves out what has no bytes.
  void add(schedule::Buffer buffer);
  /// The same, for the whole step.
  void add_lasting(schedule::Buffer buffer);

  std::vector<schedule::Buffer> take() && { return std::move(buffers_); }

 private:
  int device_;
  int end_;
  std::vector<schedule::Buffer> buffers_;
};

}  // namespace cleave::plan
