#include "cleave/plan/hardware/hardware.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/base/nearest.h"

namespace cleave::plan {
namespace {

constexpr std::int64_t GiB = std::int64_t{1} << 30;
constexpr double Tera = 1e12;
constexpr double Giga = 1e9;

/// CUDA context, NCCL's buffers, and holes of the allocator.
constexpr std::int64_t kReserve = 3 * GiB;

// matmul_flops: the largest rate that anyone measured for a product (A100 271, H100 794, B200 1745,
// GB200 1822 TFLOP/s), times the share of the clock that stays when the power limit bites. A100
// hardly throttles; from Hopper on a sustained product runs at about 82 % of the short one.
// V100, TPUs and CPUs: a share of the peak.
constexpr double kThrottled = 0.82;

constexpr std::array<Hardware, 12> kCatalogue = {{
    {"a100-80gb", 312 * Tera, 0.98 * 271.2 * Tera, 2039 * Giga, 80 * GiB, 108, 8, 300 * Giga,
     25 * Giga, Software::Early},
    {"a100-40gb", 312 * Tera, 0.98 * 271.2 * Tera, 1555 * Giga, 40 * GiB, 108, 8, 300 * Giga,
     25 * Giga, Software::Early},
    {"h100-80gb", 989 * Tera, kThrottled * 794.5 * Tera, 3350 * Giga, 80 * GiB, 132, 8, 450 * Giga,
     50 * Giga},
    {"h200-141gb", 989 * Tera, kThrottled * 794.5 * Tera, 4800 * Giga, 141 * GiB, 132, 8,
     450 * Giga, 50 * Giga},
    {"b200-180gb", 2250 * Tera, kThrottled * 1745 * Tera, 8000 * Giga, 180 * GiB, 148, 8,
     900 * Giga, 50 * Giga},
    {"gb200-186gb", 2500 * Tera, kThrottled * 1822 * Tera, 8000 * Giga, 186 * GiB, 148, 72,
     900 * Giga, 50 * Giga},
    {"v100-32gb", 125 * Tera, 0.85 * 125 * Tera, 900 * Giga, 32 * GiB, 80, 8, 150 * Giga,
     6.25 * Giga, Software::Early},
    {"v100-16gb", 125 * Tera, 0.85 * 125 * Tera, 900 * Giga, 16 * GiB, 80, 8, 150 * Giga,
     6.25 * Giga, Software::Early},
    // The torus joins every chip of a pod: no border between nodes.
    {"tpu-v4", 275 * Tera, 0.85 * 275 * Tera, 1200 * Giga, 32 * GiB, 8, 4096, 150 * Giga,
     25 * Giga},
    {"tpu-v5e", 197 * Tera, 0.85 * 197 * Tera, 820 * Giga, 16 * GiB, 4, 256, 100 * Giga, 25 * Giga},
    {"tpu-v5p", 459 * Tera, 0.85 * 459 * Tera, 2760 * Giga, 95 * GiB, 8, 8960, 300 * Giga,
     25 * Giga},
    // One socket of a current server: AMX, eight channels, one process per socket.
    {"cpu-amx", 100 * Tera, 50 * Tera, 300 * Giga, 256 * GiB, 48, 2, 60 * Giga, 25 * Giga},
}};

struct Alias {
  std::string_view name;
  std::string_view stands_for;
};

constexpr std::array<Alias, 13> kAliases = {{{"a100", "a100-80gb"},
                                             {"a100-sxm-80gb", "a100-80gb"},
                                             {"a100-sxm-40gb", "a100-40gb"},
                                             {"h100", "h100-80gb"},
                                             {"h100-sxm", "h100-80gb"},
                                             {"h100-sxm-80gb", "h100-80gb"},
                                             {"h200", "h200-141gb"},
                                             {"h200-sxm", "h200-141gb"},
                                             {"b200", "b200-180gb"},
                                             {"b200-sxm", "b200-180gb"},
                                             {"gb200", "gb200-186gb"},
                                             {"v100", "v100-32gb"},
                                             {"v100-sxm2-32gb", "v100-32gb"}}};

/// Far above any machine, far below where products overflow.
constexpr std::int64_t kMostDevices = 10'000'000;

}  // namespace

std::int64_t usable_memory(const Hardware& hardware) {
  return hardware.memory - kReserve;
}

const Hardware& find_hardware(std::string_view name) {
  std::string wanted(name);
  std::ranges::transform(wanted, wanted.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const Alias& alias : kAliases) {
    if (alias.name == wanted) wanted = alias.stands_for;
  }
  std::vector<std::string_view> names;
  for (const Hardware& hardware : kCatalogue) {
    if (hardware.name == wanted) return hardware;
    names.push_back(hardware.name);
  }
  throw UserError(detail::concat("--cluster does not know the hardware \"", name, "\"",
                                 known_are(wanted, names)));
}

Cluster parse_cluster(std::string_view text) {
  const auto colon = text.find(':');
  require(colon != text.npos, "--cluster ", text,
          " does not say how many devices; write it as a100-80gb:1024");
  const std::string_view count = text.substr(colon + 1);
  std::int64_t devices = 0;
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), devices);
  require(error == std::errc() && end == count.data() + count.size(), "--cluster ", text, ": \"",
          count, "\" is not a number of devices; write it as a100-80gb:1024");
  require(devices >= 1 && devices <= kMostDevices, "--cluster ", text, " has ", devices,
          " devices; give between 1 and ", kMostDevices);
  return {&find_hardware(text.substr(0, colon)), devices};
}

std::string to_string(const Cluster& cluster) {
  return detail::concat(cluster.hardware->name, ":", cluster.devices);
}

}  // namespace cleave::plan
