#include "cleave/engine/run/emulated_memory.h"

#include <thread>

#include <sys/mman.h>

#include "cleave/base/check.h"
#include "cleave/base/units.h"

namespace cleave::engine {
namespace {

using Clock = std::chrono::steady_clock;

// A sleeper wakes up late, by tens of microseconds on a virtual machine. What is left is spent
// yielding, so that what is emulated takes what it should and not what a timer adds to it.
constexpr std::chrono::microseconds kLatestWake{150};

void sleep_for(double seconds) {
  sleep_exactly_until(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                         std::chrono::duration<double>(seconds)));
}

}  // namespace

void sleep_exactly_until(Clock::time_point until) {
  std::this_thread::sleep_until(until - kLatestWake);
  while (Clock::now() < until) std::this_thread::yield();
}

std::byte* EmulatedMemory::map(std::int64_t bytes, std::int64_t) {
  void* range = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED)
    throw DoesNotFit("the system gives no addresses for " + format_bytes(bytes) +
                     " that an emulated device moves out; use a smaller model or more devices");
  return static_cast<std::byte*>(range);
}

void EmulatedMemory::unmap(std::byte* block, std::int64_t bytes) noexcept {
  munmap(block, static_cast<std::size_t>(bytes));
}

void EmulatedMemory::copy_in(std::byte*, std::span<const std::byte> from) {
  sleep_for(seconds_per_byte_ * static_cast<double>(from.size()));
}

void EmulatedMemory::copy_out(const std::byte*, std::span<std::byte> to) {
  sleep_for(seconds_per_byte_ * static_cast<double>(to.size()));
}

void EmulatedMemory::copy(std::byte*, const std::byte*, std::int64_t bytes) {
  sleep_for(seconds_per_byte_ * static_cast<double>(bytes));
}

}  // namespace cleave::engine
