#include "cleave/engine/measure/link_profile.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/comm/tensor_adder.h"

namespace cleave::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kProfileTag = comm::kTags - 1;  // no edge has this one
constexpr std::size_t kSmall = 64, kLarge = std::size_t{1} << 20;
constexpr int kTrips = 9, kFewestTrips = 2;

// After this there are no further ones.
constexpr std::chrono::duration<double> kLongestTrips{0.5};

// In a pipeline the receiver has mostly waited for a while and sleeps when the message comes.
constexpr std::chrono::microseconds kWaitedFor{1000}, kNotAtAll{0};

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// What travels between two devices that measure their link, one buffer for each way.
class Trips {
 public:
  Trips(comm::Communicator& world, int first, int second)
      : world_(world), first_(first), second_(second), out_(kLarge), in_(kLarge) {}

  /// Half the time of a message there and back, which the first device measures. As in a step, each
  /// receive is posted before its message leaves, so that no credit adds to the way.
  double one_way(std::size_t size, std::chrono::microseconds pause) {
    const std::span out = std::span(out_).first(size), in = std::span(in_).first(size);
    return world_.rank() == first_ ? measure(out, in, pause) : answer(out, in);
  }

 private:
  /// A message says whether another one follows: a slow link is asked less often.
  double measure(std::span<std::byte> out, std::span<std::byte> in,
                 std::chrono::microseconds pause) {
    std::vector<double> seconds;
    const Clock::time_point begin = Clock::now();
    for (int round = -1, more = 1; more != 0; ++round) {  // the first round warms up
      const std::chrono::duration<double> so_far = Clock::now() - begin;
      more = round + 1 < kTrips && (round < kFewestTrips || so_far < kLongestTrips) ? 1 : 0;
      out[0] = static_cast<std::byte>(more);
      comm::Pending back = world_.receive(in, second_, kProfileTag);
      std::this_thread::sleep_for(pause);
      const Clock::time_point start = Clock::now();
      comm::Pending forth = world_.send(out, second_, kProfileTag);
      back.wait();
      const std::chrono::duration<double> both_ways = Clock::now() - start;
      forth.wait();
      if (round >= 0) seconds.push_back(both_ways.count() / 2);
    }
    return median(std::move(seconds));
  }

  double answer(std::span<std::byte> out, std::span<std::byte> in) {
    comm::Pending next = world_.receive(in, first_, kProfileTag);
    for (bool more = true; more;) {
      next.wait();
      more = in[0] != std::byte{0};
      comm::Pending back = world_.send(out, first_, kProfileTag);
      if (more) next = world_.receive(in, first_, kProfileTag);
      back.wait();
    }
    return 0;
  }

  comm::Communicator& world_;
  int first_, second_;
  std::vector<std::byte> out_, in_;
};

plan::LinkCosts measure(comm::Communicator& world, int first, int second) {
  Trips trips(world, first, second);
  const double latency = trips.one_way(kSmall, kWaitedFor);
  const double small = trips.one_way(kSmall, kNotAtAll);
  const double large = trips.one_way(kLarge, kNotAtAll);
  return {.latency = latency,
          .per_byte = std::max(0.0, large - small) / static_cast<double>(kLarge),
          .credit = world.sends_credits() ? latency : 0};
}

/// Times sums of f32 zeros. A sum of two devices sends as many bytes as it adds up.
plan::LinkCosts measure_sum(comm::Communicator& world, int first, int second) {
  const std::unique_ptr<comm::Communicator> pair = world.group(std::array{first, second});
  ops::Compute compute(1);
  const comm::TensorAdder adder(compute, DType::F32);
  std::vector<std::byte> values(kLarge), workspace(2 * kLarge);
  const auto seconds = [&](std::size_t bytes) {
    std::vector<double> trips(kTrips);
    for (double& each : trips) {
      pair->barrier().wait();
      const Clock::time_point start = Clock::now();
      pair->all_reduce({std::span(values).first(bytes), workspace, adder}).wait();
      each = std::chrono::duration<double>(Clock::now() - start).count();
    }
    return median(std::move(trips));
  };
  const double small = seconds(kSmall);
  return {.latency = small,
          .per_byte = std::max(0.0, seconds(kLarge) - small) / static_cast<double>(kLarge)};
}

/// What `first` has measured, for all.
plan::LinkCosts shared(comm::Communicator& world, int first, int second,
                       plan::LinkCosts (*measure_pair)(comm::Communicator&, int, int)) {
  std::array<double, 3> costs{};
  if (world.rank() == first || world.rank() == second) {
    const plan::LinkCosts measured = measure_pair(world, first, second);
    if (world.rank() == first) costs = {measured.latency, measured.per_byte, measured.credit};
  }
  world.combine(costs, comm::Combine::Sum);
  return {.latency = costs[0], .per_byte = costs[1], .credit = costs[2]};
}

}  // namespace

plan::LinkCosts profile_link(comm::Communicator& world, int first, int second) {
  return shared(world, first, second, measure);
}

plan::LinkCosts profile_sum(comm::Communicator& world, int first, int second) {
  return shared(world, first, second, measure_sum);
}

std::vector<plan::LinkCosts> profile_links(const schedule::Program& program,
                                           comm::Communicator& world) {
  std::map<std::pair<int, int>, plan::LinkCosts> links;
  for (const schedule::Edge& edge : program.edges) {
    // Replicas have links of the same kind.
    const auto [first, second] =
        std::minmax(program.placement[edge.from][0], program.placement[edge.to][0]);
    if (first == second || links.contains({first, second})) continue;
    links[{first, second}] = profile_link(world, first, second);
  }
  std::vector<plan::LinkCosts> edges;
  for (const schedule::Edge& edge : program.edges) {
    edges.push_back(
        links[std::minmax(program.placement[edge.from][0], program.placement[edge.to][0])]);
  }
  return edges;
}

double profile_combine(comm::Communicator& world, int values) {
  std::vector<double> numbers(values);
  std::vector<double> seconds(kTrips);
  for (double& each : seconds) {
    const Clock::time_point start = Clock::now();
    world.combine(numbers, comm::Combine::Max);
    each = std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::array<double, 1> result = {median(std::move(seconds))};
  world.combine(result, comm::Combine::Max);
  return result[0];
}

}  // namespace cleave::engine
