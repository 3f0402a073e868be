// What a device that waits in vain may say of the others.

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/comm/local/local_transport.h"

namespace cleave::comm {
namespace {

using namespace std::chrono_literals;

/// Waits for a device; its second look lasts as long as a thread is stopped.
class StoppedWait final : public Operation {
 public:
  StoppedWait(int awaited, std::chrono::milliseconds stopped)
      : awaited_(awaited), stopped_(stopped) {}

  bool advance() override {
    if (++looks_ == 2) std::this_thread::sleep_for(stopped_);
    return looks_ > 2 && done;
  }
  void release() noexcept override {}
  std::string describe() const override { return "turn"; }
  int awaited() const override { return awaited_; }

  std::atomic<bool> done = false;

 private:
  int awaited_;
  std::chrono::milliseconds stopped_;
  int looks_ = 0;
};

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const DeviceLost& lost) {
    return lost.what();
  }
  return "";
}

TEST(Patience, AThreadThatIsStoppedInItsWaitIsNotCalledADeadlock) {
  LocalShared shared(2, {});
  StoppedWait stopped(0, 1500ms);
  std::thread device([&] {
    shared.transport(1).set_patience(1h);
    shared.transport(1).wait(stopped);
  });
  shared.transport(0).set_patience(800ms);
  StoppedWait mine(1, 0ms);

  const std::string error = error_of([&] { shared.transport(0).wait(mine); });
  stopped.done = true;
  device.join();

  EXPECT_EQ(error,
            "device 0 has waited 800 ms for its turn; device 1 does not answer: it computes, hangs "
            "or is stopped");
}

TEST(Patience, DoesNotCountTheTimeDuringWhichTheDeviceWasStoppedItself) {
  LocalShared shared(2, {});
  StoppedWait mine(1, 1s);
  shared.transport(0).set_patience(500ms);
  std::thread waker([&] {
    std::this_thread::sleep_for(1100ms);
    mine.done = true;
  });

  EXPECT_EQ(error_of([&] { shared.transport(0).wait(mine); }), "");
  waker.join();
}

}  // namespace
}  // namespace cleave::comm
