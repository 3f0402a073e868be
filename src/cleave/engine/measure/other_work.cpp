#include "cleave/engine/measure/other_work.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

#include "cleave/base/threads.h"

namespace cleave::engine {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

/// Processor seconds since the machine was started that neither idled nor went into this program.
std::optional<double> taken_by_others() {
  std::ifstream file("/proc/stat");
  std::string name;
  // user, nice, system, idle, iowait, irq, softirq, steal
  std::array<double, 8> ticks{};
  file >> name;
  for (double& count : ticks) file >> count;
  rusage own{};
  if (!file || ::getrusage(RUSAGE_SELF, &own) != 0) return std::nullopt;
  const double busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
  return busy / static_cast<double>(::sysconf(_SC_CLK_TCK)) - seconds_of(own.ru_utime) -
         seconds_of(own.ru_stime);
}

}  // namespace

OtherWork::OtherWork() : before_(taken_by_others()), start_(std::chrono::steady_clock::now()) {}

std::optional<double> OtherWork::share() const {
  const std::optional<double> now = taken_by_others();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
  if (!before_ || !now || passed.count() <= 0) return std::nullopt;
  const double threads = all_threads();
  return std::clamp((*now - *before_) / (passed.count() * threads), 0.0, 1.0);
}

}  // namespace cleave::engine
