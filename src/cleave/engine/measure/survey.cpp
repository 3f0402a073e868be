#include "cleave/engine/measure/survey.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <span>

namespace cleave::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kOrderTag = comm::kTags - 2, kTripTag = comm::kTags - 1;
constexpr std::int64_t kFew = 64, kMany = std::int64_t{1} << 16, kMost = std::int64_t{1} << 20;
constexpr int kLeastTrips = 2, kMostTrips = 9;
constexpr double kTripSeconds = 0.1;     ///< after which no message of a size is repeated
constexpr double kQuickSeconds = 0.005;  ///< for kMany, so that kMost tells more
constexpr std::size_t kPlaceWords = 32;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Of messages with a few bytes, and with `size`. On a busy machine the small ones may have taken
/// longer than the large: then all that a large one took may be due to its bytes, and no link is
/// taken for one without limits.
plan::LinkCosts link_costs_of(double few, double large, std::int64_t size) {
  const double of_bytes = large > few ? large - few : large;
  return {.latency = std::min(few, large), .per_byte = of_bytes / static_cast<double>(size)};
}

/// One end of a link: the first measures, the second sends back what it gets.
class LinkProbe {
 public:
  LinkProbe(comm::Communicator& world, int peer) : world_(world), peer_(peer), bytes_(kMost) {}

  plan::LinkCosts measure() {
    const double latency = one_way(kFew);
    std::int64_t size = kMany;
    double large = one_way(size);
    if (large - latency < kQuickSeconds) large = one_way(size = kMost);
    order(0);
    return link_costs_of(latency, large, size);
  }

  void answer() {
    for (;;) {
      std::int64_t size = 0;
      world_.receive(std::as_writable_bytes(std::span(&size, 1)), peer_, kOrderTag).wait();
      if (size <= 0 || size > kMost) return;
      world_.receive(bytes(size), peer_, kTripTag).wait();
      world_.send(bytes(size), peer_, kTripTag).wait();
    }
  }

 private:
  std::span<std::byte> bytes(std::int64_t size) {
    return std::span(bytes_).first(static_cast<std::size_t>(size));
  }

  /// The next message has so many bytes; 0: there is none.
  void order(std::int64_t size) {
    world_.send(std::as_bytes(std::span(&size, 1)), peer_, kOrderTag).wait();
  }

  /// The shortest: whatever else the machines do makes it longer. The receive is posted before the
  /// message leaves, as in a step, so that its credit does not add to the way.
  double one_way(std::int64_t size) {
    double least = std::numeric_limits<double>::max();
    const Clock::time_point begin = Clock::now();
    for (int trip = 0; trip < kMostTrips; ++trip) {
      if (trip >= kLeastTrips && seconds_since(begin) > kTripSeconds) break;
      comm::Pending back = world_.receive(bytes(size), peer_, kTripTag);
      order(size);
      const Clock::time_point start = Clock::now();
      comm::Pending there = world_.send(bytes(size), peer_, kTripTag);
      there.wait();
      back.wait();
      least = std::min(least, seconds_since(start) / 2);
    }
    return least;
  }

  comm::Communicator& world_;
  int peer_;
  std::vector<std::byte> bytes_;
};

/// With whom a device measures in a round, -1: with nobody. One stays where it is, the others go
/// round; of an odd number of devices one rests.
int partner(int device, int devices, int round) {
  const int seats = devices + devices % 2;
  const int turning = seats - 1;
  const auto seat = [&](int who) { return who == turning ? turning : (who + round) % turning; };
  const auto who = [&](int at) {
    return at == turning ? turning : (at - round % turning + turning) % turning;
  };
  const int mine = seat(device);
  const int other = mine == turning ? 0 : mine == 0 ? turning : turning - mine;
  const int found = who(other);
  return found < devices ? found : -1;
}

}  // namespace

Survey survey(comm::Communicator& world, double rate) {
  const int devices = world.size(), own = world.rank();
  const auto count = static_cast<std::size_t>(devices);
  // Everybody fills in its own numbers; the others add nothing to them.
  const std::size_t of_links = count * (2 + kPlaceWords), all = of_links + 2 * count * count;
  std::vector<double> table(all);
  table[own] = rate;
  const ProcessPlace place = place_of_this_process();
  table[count + own] = place.host;
  for (std::size_t i = 0; i < std::min(kPlaceWords, place.threads.size()); ++i)
    table[2 * count + own * kPlaceWords + i] = place.threads[i];
  for (int round = 0; round < devices - 1 + devices % 2; ++round) {
    const int peer = partner(own, devices, round);
    if (peer < 0 || peer == own) continue;
    LinkProbe probe(world, peer);
    if (own > peer) {
      probe.answer();
      continue;
    }
    const plan::LinkCosts link = probe.measure();
    for (const std::size_t at : {own * count + peer, peer * count + own}) {
      table[of_links + 2 * at] = link.latency;
      table[of_links + 2 * at + 1] = link.per_byte;
    }
  }
  world.combine(table, comm::Combine::Sum);
  Survey result;
  for (std::size_t device = 0; device < count; ++device) {
    result.rate.push_back(table[device]);
    ProcessPlace& found = result.places.emplace_back();
    found.host = static_cast<std::uint32_t>(table[count + device]);
    for (std::size_t i = 0; i < kPlaceWords; ++i)
      found.threads.push_back(
          static_cast<std::uint32_t>(table[2 * count + device * kPlaceWords + i]));
  }
  for (std::size_t at = of_links; at < all; at += 2)
    result.links.push_back({.latency = table[at],
                            .per_byte = table[at + 1],
                            .credit = world.sends_credits() ? table[at] : 0});
  return result;
}

}  // namespace cleave::engine
