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
constexpr int kTrips = 9;

// In a pipeline the receiver has mostly waited for a while and sleeps when the message comes.
constexpr std::chrono::microseconds kWaitedFor{1000}, kNotAtAll{0};

double median(std::array<double, kTrips> values) {
  std::ranges::nth_element(values, values.begin() + kTrips / 2);
  return values[kTrips / 2];
}

/// Half the time of a message there and back, which `first` measures.
double one_way(comm::Communicator& world, int first, int second, std::span<std::byte> bytes,
               std::chrono::microseconds pause) {
  std::array<double, kTrips> seconds{};
  for (int round = -1; round < kTrips; ++round) {  // the first round warms up
    if (world.rank() == first) {
      std::this_thread::sleep_for(pause);
      const Clock::time_point start = Clock::now();
      world.send(bytes, second, kProfileTag).wait();
      world.receive(bytes, second, kProfileTag).wait();
      const std::chrono::duration<double> both_ways = Clock::now() - start;
      if (round >= 0) seconds[round] = both_ways.count() / 2;
    } else {
      world.receive(bytes, first, kProfileTag).wait();
      world.send(bytes, first, kProfileTag).wait();
    }
  }
  return median(seconds);
}

plan::LinkCosts measure(comm::Communicator& world, int first, int second) {
  std::vector<std::byte> bytes(kLarge);
  const std::span<std::byte> few = std::span(bytes).first(kSmall);
  const double latency = one_way(world, first, second, few, kWaitedFor);
  const double small = one_way(world, first, second, few, kNotAtAll);
  const double large = one_way(world, first, second, bytes, kNotAtAll);
  return {.latency = latency,
          .per_byte = std::max(0.0, large - small) / static_cast<double>(kLarge)};
}

/// Times sums of f32 zeros. A sum of two devices sends as many bytes as it adds up.
plan::LinkCosts measure_sum(comm::Communicator& world, int first, int second) {
  const std::unique_ptr<comm::Communicator> pair = world.group(std::array{first, second});
  ops::Compute compute(1);
  const comm::TensorAdder adder(compute, DType::F32);
  std::vector<std::byte> values(kLarge), workspace(2 * kLarge);
  const auto seconds = [&](std::size_t bytes) {
    std::array<double, kTrips> trips{};
    for (double& each : trips) {
      pair->barrier().wait();
      const Clock::time_point start = Clock::now();
      pair->all_reduce({std::span(values).first(bytes), workspace, adder}).wait();
      each = std::chrono::duration<double>(Clock::now() - start).count();
    }
    return median(trips);
  };
  const double small = seconds(kSmall);
  return {.latency = small,
          .per_byte = std::max(0.0, seconds(kLarge) - small) / static_cast<double>(kLarge)};
}

/// What `first` has measured, for all.
plan::LinkCosts shared(comm::Communicator& world, int first, int second,
                       plan::LinkCosts (*measure_pair)(comm::Communicator&, int, int)) {
  std::array<double, 2> costs{};
  if (world.rank() == first || world.rank() == second) {
    const plan::LinkCosts measured = measure_pair(world, first, second);
    if (world.rank() == first) costs = {measured.latency, measured.per_byte};
  }
  world.combine(costs, comm::Combine::Sum);
  return {.latency = costs[0], .per_byte = costs[1]};
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
  std::array<double, kTrips> seconds{};
  for (double& each : seconds) {
    const Clock::time_point start = Clock::now();
    world.combine(numbers, comm::Combine::Max);
    each = std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::array<double, 1> result = {median(seconds)};
  world.combine(result, comm::Combine::Max);
  return result[0];
}

}  // namespace cleave::engine
