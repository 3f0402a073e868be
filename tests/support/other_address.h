#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cleave::testing {

/// A router on the loopback interface: whoever connects to address() is passed on to `port` of
/// 127.0.0.1, where it seems to come from 127.0.0.9. Nobody can call it back there.
class OtherAddress {
 public:
  explicit OtherAddress(std::uint16_t port);
  ~OtherAddress();
  OtherAddress(const OtherAddress&) = delete;
  OtherAddress& operator=(const OtherAddress&) = delete;

  std::string address() const;

 private:
  void run();
  void accept();

  std::uint16_t target_;
  int listener_;
  std::vector<std::pair<int, int>> ways_;  ///< sockets whose bytes go to each other
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace cleave::testing
