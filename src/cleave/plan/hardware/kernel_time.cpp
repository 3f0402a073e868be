#include "cleave/plan/hardware/kernel_time.h"

#include <algorithm>
#include <array>
#include <utility>

namespace cleave::plan {
namespace {

// Shares of the data sheet that good kernels reach, the same for all hardware.
constexpr double kStreamShare = 0.70;   // element-wise kernels, of the memory bandwidth
constexpr double kOperandShare = 0.90;  // operands of products, of the memory bandwidth
constexpr double kLinkShare = 0.72;     // NCCL rings over NVLink
constexpr double kNetworkShare = 0.80;  // NCCL rings over the network
/// Fused attention, of the peak: softmax stands between the products, and backward has five.
struct FlashShares {
  double forward;
  double backward;
};
constexpr FlashShares kFusedFlash = {0.49, 0.39};
constexpr FlashShares kEagerFlash = {0.40, 0.30};
constexpr double kOlderInstructions = 0.60;  // kernels of Ampere on later hardware

constexpr double kLaunch = 4e-6;             // between two kernels
constexpr double kLinkStart = 15e-6;         // of a collective in a node
constexpr double kLinkHop = 0.7e-6;          // per step of its ring
constexpr double kNetworkStart = 15e-6;      // of a collective between nodes
constexpr double kNetworkHop = 2e-6;         // per node of its ring
constexpr std::int64_t kFillAndDrain = 200;  // k-steps a tile loses at both ends of its loop

/// A block of the result that one processor computes. Small ones reload their operands more often.
struct Tile {
  std::int64_t rows;
  std::int64_t columns;
  double share;  // of matmul_flops
};
constexpr std::array<Tile, 4> kTiles = {
    {{256, 128, 1.0}, {128, 128, 0.93}, {128, 64, 0.75}, {64, 64, 0.5}}};

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

double tiled_seconds(const Hardware& hardware, const Product& p, const Tile& tile) {
  const std::int64_t tiles = divide_up(p.m, tile.rows) * divide_up(p.n, tile.columns) * p.batch;
  const std::int64_t waves = divide_up(tiles, hardware.processors);
  const double flops_of_wave = 2.0 * static_cast<double>(tile.rows * tile.columns) *
                               static_cast<double>(p.k + kFillAndDrain) * hardware.processors;
  return static_cast<double>(waves) * flops_of_wave / (hardware.matmul_flops * tile.share);
}

}  // namespace

double matmul_seconds(const Hardware& hardware, const Product& p) {
  double best = tiled_seconds(hardware, p, kTiles[0]);
  for (Tile tile : kTiles) {
    best = std::min(best, tiled_seconds(hardware, p, tile));
    std::swap(tile.rows, tile.columns);
    best = std::min(best, tiled_seconds(hardware, p, tile));
  }
  const double bytes =
      2.0 * static_cast<double>(p.batch) * static_cast<double>(p.m * p.k + p.k * p.n + p.m * p.n);
  return std::max(best, bytes / (hardware.memory_bandwidth * kOperandShare)) + kLaunch;
}

double stream_seconds(const Hardware& hardware, double bytes) {
  return bytes / (hardware.memory_bandwidth * kStreamShare) + kLaunch;
}

double flash_seconds(const Hardware& hardware, double flops, FlashPass pass, Kernels kernels) {
  const bool eager = kernels == Kernels::Eager;
  const FlashShares& shares = eager ? kEagerFlash : kFusedFlash;
  double share = pass == FlashPass::Forward ? shares.forward : shares.backward;
  if (eager && hardware.software == Software::Current) share *= kOlderInstructions;
  return flops / (hardware.peak_flops * share) + kLaunch;
}

double gather_seconds(const Hardware& hardware, double bytes, const CollectiveGroup& group) {
  if (group.members <= 1) return 0;
  const double members = static_cast<double>(group.members);
  const double moved = bytes * (members - 1) / members;
  const double links = hardware.link_bandwidth * kLinkShare;
  if (group.members <= group.per_node) return moved / links + kLinkStart + (members - 1) * kLinkHop;
  const double per_node = static_cast<double>(group.per_node);
  const double network = per_node * hardware.network_bandwidth * kNetworkShare;
  return moved / std::min(links, network) + kNetworkStart + (members / per_node - 1) * kNetworkHop;
}

double all_reduce_seconds(const Hardware& hardware, double bytes, const CollectiveGroup& group) {
  return 2 * gather_seconds(hardware, bytes, group);
}

double message_seconds(const Hardware& hardware, double bytes, Distance distance) {
  if (distance == Distance::SameNode) {
    return bytes / (hardware.link_bandwidth * kLinkShare) + kLinkStart;
  }
  return bytes / (hardware.network_bandwidth * kNetworkShare) + kNetworkStart;
}

}  // namespace cleave::plan
