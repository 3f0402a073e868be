#include "cleave/plan/memory/buffer_list.h"

#include <algorithm>

#include "cleave/base/check.h"

namespace cleave::plan {

BufferList::BufferList(const schedule::Program& program, int device)
    : device_(device), end_(std::max<int>(0, static_cast<int>(program.lists[device].size()) - 1)) {}

void BufferList::add(schedule::Buffer buffer) {
  if (buffer.bytes == 0) return;
  CLEAVE_CHECK(0 <= buffer.first && buffer.first <= buffer.last && buffer.last <= end_, "device ",
               device_, " stage ", buffer.stage, " edge ", buffer.edge, " microbatch ",
               buffer.microbatch, " lives from ", buffer.first, " to ", buffer.last);
  buffer.device = device_;
  buffers_.push_back(buffer);
}

void BufferList::add_lasting(schedule::Buffer buffer) {
  buffer.first = 0;
  buffer.last = end_;
  add(buffer);
}

}  // namespace cleave::plan
