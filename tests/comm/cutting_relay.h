#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "cleave/comm/tcp/listener.h"
#include "cleave/comm/tcp/stream.h"

namespace cleave::testing {

/// A stretch of network that passes bytes on to `target`, and breaks each of the first `cuts`
/// connections once `bytes` have gone through it, in the middle of whatever they were.
class CuttingRelay {
 public:
  CuttingRelay(comm::Address target, std::size_t bytes, int cuts);
  ~CuttingRelay();

  comm::Address address() const { return {"127.0.0.1", listener_.port()}; }
  int cuts_left() const { return cuts_; }

 private:
  struct Way {
    comm::Stream near, far;
    std::size_t passed = 0;
  };
  void run();
  bool pass_on(Way& way);

  comm::Address target_;
  std::size_t bytes_;
  std::atomic<int> cuts_;
  comm::Listener listener_{{"127.0.0.1", 0}};
  std::atomic<bool> stop_ = false;
  std::vector<Way> ways_;
  std::thread thread_;
};

}  // namespace cleave::testing
