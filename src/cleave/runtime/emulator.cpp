#include "cleave/runtime/emulator.h"

#include <chrono>
#include <thread>
#include <utility>

#include <sys/prctl.h>

namespace cleave::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// A sleeper wakes up late, by tens of microseconds on a virtual machine. What is left is spent
// yielding, so that the emulated compute takes what it should and not what a timer adds to it.
constexpr std::chrono::microseconds kLatestWake{150};

}  // namespace

Emulator::Emulator(const schedule::Program& program, plan::Costs costs, int device)
    : program_(&program), costs_(std::move(costs)), device_(device) {
  // Linux may oversleep by 50 us otherwise.
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

void Emulator::run(const schedule::Instruction& instruction) {
  const std::chrono::duration<double> seconds(
      plan::duration(*program_, costs_, device_, instruction));
  if (seconds.count() <= 0) return;
  const Clock::time_point until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds);
  std::this_thread::sleep_until(until - kLatestWake);
  while (Clock::now() < until) std::this_thread::yield();
}

}  // namespace cleave::runtime
