#include "cleave/engine/measure/shared_link.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

namespace cleave::engine {
namespace {

using Clock = std::chrono::steady_clock;
using Pair = std::pair<int, int>;

constexpr int kCompanyTag = comm::kTags - 1;  // no edge has this one
constexpr int kTrips = 3;                     // the first one warms up

// What all links together carry in one trip, and what each does at least.
constexpr std::int64_t kMostTogether = std::int64_t{1} << 20, kLeastOfEach = std::int64_t{1} << 14;

// A step over links on which so many bytes take no longer than this waits for something else.
constexpr double kFastSeconds = 1e-3;
constexpr std::int64_t kFastBytes = std::int64_t{1} << 16;

// Links that are slower by less than this together than alone do not share their way.
constexpr double kNoticed = 1.25;

/// What the devices of several links send each other at the same time, from the first to the second
/// of each pair.
class Company {
 public:
  Company(comm::Communicator& world, std::vector<Pair> pairs, std::int64_t bytes)
      : world_(world), pairs_(std::move(pairs)), out_(bytes) {
    std::vector<int> senders;
    for (const auto& [from, to] : pairs_) {
      senders.push_back(from);
      if (to == world.rank()) in_.emplace_back(bytes);
    }
    std::ranges::sort(senders);
    senders.erase(std::unique(senders.begin(), senders.end()), senders.end());
    if (std::ranges::binary_search(senders, world.rank())) senders_ = world.group(senders);
  }

  /// Until the last of this device's receivers has told that all is there; 0 if it has none.
  double trip() {
    std::vector<comm::Pending> arriving, told;
    std::vector<std::byte> word(pairs_.size());
    for (std::size_t k = 0; k < pairs_.size(); ++k) {
      const auto [from, to] = pairs_[k];
      if (to == world_.rank())
        arriving.push_back(world_.receive(in_[arriving.size()], from, kCompanyTag));
      if (from == world_.rank())
        told.push_back(world_.receive(std::span(word).subspan(k, 1), to, kCompanyTag));
    }
    world_.barrier().wait();
    // Whoever sends leaves this one at nearly the same time where senders are near each other.
    if (senders_) senders_->barrier().wait();
    const Clock::time_point start = Clock::now();
    std::vector<comm::Pending> leaving;
    for (const auto& [from, to] : pairs_)
      if (from == world_.rank()) leaving.push_back(world_.send(out_, to, kCompanyTag));
    std::size_t next = 0;
    for (const auto& [from, to] : pairs_) {
      if (to != world_.rank()) continue;
      arriving[next++].wait();
      leaving.push_back(world_.send(std::span(word).first(1), from, kCompanyTag));
    }
    for (comm::Pending& each : told) each.wait();
    const std::chrono::duration<double> seconds = Clock::now() - start;
    for (comm::Pending& each : leaving) each.wait();
    return told.empty() ? 0 : seconds.count();
  }

 private:
  comm::Communicator& world_;
  std::vector<Pair> pairs_;
  std::vector<std::byte> out_;
  std::vector<std::vector<std::byte>> in_;       ///< [link that ends here]
  std::unique_ptr<comm::Communicator> senders_;  ///< null: this device is none
};

/// The shortest: whatever else the machines do makes it longer.
double together(comm::Communicator& world, std::vector<Pair> pairs, std::int64_t bytes) {
  Company company(world, std::move(pairs), bytes);
  std::vector<double> trips(kTrips);
  for (double& each : trips) each = company.trip();
  world.combine(trips, comm::Combine::Max);
  return *std::min_element(trips.begin() + 1, trips.end());
}

}  // namespace

plan::LinkCosts link_at_work(const TimedMessages& timed) {
  const double more = (timed.messages - 1) * timed.bytes;
  plan::LinkCosts link{.latency = timed.few,
                       .per_byte = std::max(0.0, timed.several - timed.one) / more};
  if (link.per_byte > 0) {
    const double paid_for = std::max(0.0, timed.one - timed.few) / link.per_byte;
    link.burst = std::max(0.0, timed.bytes - paid_for);
  }
  return link;
}

plan::LinkCosts link_in_company(const plan::LinkCosts& alone, int links, double bytes,
                                double seconds) {
  plan::LinkCosts link = alone;
  const double counted = links * bytes - alone.burst;
  const double per_byte = std::max(0.0, seconds - alone.latency) / std::max(bytes, counted);
  if (per_byte * links > kNoticed * alone.per_byte) link.shared_per_byte = per_byte;
  return link;
}

plan::LinkCosts profile_company(comm::Communicator& world, const plan::LinkCosts& alone,
                                std::span<const Pair> links, std::int64_t bytes) {
  const auto count = static_cast<int>(links.size());
  if (count < 2 || !world.sends_credits() || alone.per_byte * kFastBytes < kFastSeconds)
    return alone;
  const std::int64_t each =
      std::max(kLeastOfEach, std::min(bytes, kMostTogether / static_cast<std::int64_t>(count)));
  std::vector<Pair> there(links.begin(), links.end()), back;
  for (const auto& [first, second] : links) back.emplace_back(second, first);
  // The word that all is there takes a way of its own.
  const double seconds =
      (together(world, there, each) + together(world, back, each)) / 2 - alone.latency;
  return link_in_company(alone, count, static_cast<double>(each), seconds);
}

}  // namespace cleave::engine
