#include "cleave/engine/measure/devices_at_once.h"

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <map>
#include <string>

#include <sched.h>
#include <unistd.h>

#include "cleave/base/hash.h"

namespace cleave::engine {
namespace {

constexpr std::size_t kMaskBits = 32;
constexpr std::size_t kMaskWords = CPU_SETSIZE / kMaskBits;

/// Containers of one machine may share a name, and machines of a lab too.
std::uint32_t hash_of_host() {
  std::array<char, 256> name = {};
  gethostname(name.data(), name.size() - 1);
  std::string start;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), start);
  Hasher hasher;
  hasher.add(std::string(name.data()) + "\n" + start);
  return static_cast<std::uint32_t>(hasher.digest() >> 32);
}

}  // namespace

ProcessPlace place_of_this_process() {
  ProcessPlace place{.host = hash_of_host(), .threads = std::vector<std::uint32_t>(kMaskWords)};
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return place;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) place.threads[cpu / kMaskBits] |= 1u << cpu % kMaskBits;
  return place;
}

double devices_at_once(std::span<const ProcessPlace> processes, int devices, int threads) {
  struct Host {
    std::vector<std::uint32_t> threads;
    int processes = 0;
  };
  std::map<std::uint32_t, Host> hosts;
  for (const ProcessPlace& place : processes) {
    Host& host = hosts[place.host];
    host.threads.resize(std::max(host.threads.size(), place.threads.size()));
    for (std::size_t i = 0; i < place.threads.size(); ++i) host.threads[i] |= place.threads[i];
    ++host.processes;
  }
  double at_once = 0;
  for (const auto& [_, host] : hosts) {
    int allowed = 0;
    for (const std::uint32_t word : host.threads) allowed += std::popcount(word);
    const double here =
        static_cast<double>(devices) * host.processes / static_cast<double>(processes.size());
    at_once += std::clamp(static_cast<double>(allowed) / threads, 1.0, std::max(1.0, here));
  }
  return at_once;
}

double devices_at_once(comm::Communicator& processes, int devices, int threads) {
  const ProcessPlace mine = place_of_this_process();
  // Every process fills in its own row: whole numbers below 2^32 add up exactly.
  const std::size_t row = 1 + kMaskWords;
  std::vector<double> table(row * static_cast<std::size_t>(processes.size()));
  double* own = &table[row * static_cast<std::size_t>(processes.rank())];
  own[0] = mine.host;
  std::ranges::copy(mine.threads, own + 1);
  processes.combine(table, comm::Combine::Sum);
  std::vector<ProcessPlace> all;
  for (auto at = table.begin(); at != table.end(); at += static_cast<std::ptrdiff_t>(row)) {
    ProcessPlace& place = all.emplace_back();
    place.host = static_cast<std::uint32_t>(*at);
    for (auto word = at + 1; word != at + static_cast<std::ptrdiff_t>(row); ++word)
      place.threads.push_back(static_cast<std::uint32_t>(*word));
  }
  return devices_at_once(all, devices, threads);
}

}  // namespace cleave::engine
