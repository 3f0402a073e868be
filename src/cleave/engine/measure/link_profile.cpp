#include "cleave/engine/measure/link_profile.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/base/median.h"
#include "cleave/comm/tensor_adder.h"
#include "cleave/engine/measure/shared_link.h"

namespace cleave::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kProfileTag = comm::kTags - 1;  // no edge has this one
constexpr std::size_t kSmall = 64, kLarge = std::size_t{1} << 20;

// Over a link that is so long a message is measured in the size that it has, and as many of them as
// follow each other in a step: TCP begins slowly, and goes by how much it has lately brought to the
// other end within a round trip, so that what others take says little of them.
constexpr std::size_t kLeastOnLongLinks = std::size_t{1} << 15;
constexpr int kTrips = 9, kFewestTrips = 2;

// After this there are no further ones.
constexpr std::chrono::duration<double> kLongestTrips{0.5};

// In a pipeline the receiver has mostly waited for a while and sleeps when the message comes.
constexpr std::chrono::microseconds kWaitedFor{1000}, kNotAtAll{0};

bool measures(const comm::Communicator& world, int first, int second) {
  return world.rank() == first || world.rank() == second;
}

/// What travels between two devices that measure their link, one buffer for each way.
class Trips {
 public:
  Trips(comm::Communicator& world, int first, int second)
      : world_(world), first_(first), second_(second) {
    if (!measures(world, first, second)) return;
    out_.resize(kLarge);
    in_.resize(kLarge);
  }

  /// Half the time of `count` messages there, and as many back once all are there, which the first
  /// device measures. As in a step, each receive is posted before its message leaves, so that no
  /// credit adds to the way.
  double one_way(std::size_t size, std::chrono::microseconds pause, std::size_t count = 1) {
    size_ = size;
    count_ = count;
    return world_.rank() == first_ ? measure(pause) : answer();
  }

 private:
  std::vector<comm::Pending> receive_all(int from) {
    std::vector<comm::Pending> all;
    for (std::size_t i = 0; i < count_; ++i)
      all.push_back(world_.receive(std::span(in_).subspan(i * size_, size_), from, kProfileTag));
    return all;
  }

  std::vector<comm::Pending> send_all(int to) {
    std::vector<comm::Pending> all;
    for (std::size_t i = 0; i < count_; ++i)
      all.push_back(world_.send(std::span(out_).first(size_), to, kProfileTag));
    return all;
  }

  static void wait_for(std::vector<comm::Pending>& all) {
    for (comm::Pending& each : all) each.wait();
  }

  /// A message says whether another one follows: a slow link is asked less often.
  double measure(std::chrono::microseconds pause) {
    std::vector<double> seconds;
    const Clock::time_point begin = Clock::now();
    for (int round = -1, more = 1; more != 0; ++round) {  // the first round warms up
      const std::chrono::duration<double> so_far = Clock::now() - begin;
      more = round + 1 < kTrips && (round < kFewestTrips || so_far < kLongestTrips) ? 1 : 0;
      out_[0] = static_cast<std::byte>(more);
      std::vector<comm::Pending> back = receive_all(second_);
      std::this_thread::sleep_for(pause);
      const Clock::time_point start = Clock::now();
      std::vector<comm::Pending> forth = send_all(second_);
      wait_for(back);
      const std::chrono::duration<double> both_ways = Clock::now() - start;
      wait_for(forth);
      if (round >= 0) seconds.push_back(both_ways.count() / 2);
    }
    return median(std::move(seconds));
  }

  double answer() {
    std::vector<comm::Pending> next = receive_all(first_);
    for (bool more = true; more;) {
      wait_for(next);
      more = in_[0] != std::byte{0};
      std::vector<comm::Pending> back = send_all(first_);
      if (more) next = receive_all(first_);
      wait_for(back);
    }
    return 0;
  }

  comm::Communicator& world_;
  int first_, second_;
  std::size_t size_ = 0, count_ = 0;
  std::vector<std::byte> out_, in_;
};

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
double shared(comm::Communicator& world, int first, double measured) {
  double value = world.rank() == first ? measured : 0;
  world.combine({&value, 1}, comm::Combine::Sum);
  return value;
}

using Pair = std::pair<int, int>;

/// Links between the devices of each replica, and the bytes of the largest message that will go
/// over them, `of_a_step` times in a step; 0: nobody knows.
struct LinkLoad {
  std::vector<Pair> links;  ///< the first is the one that is measured alone
  std::int64_t message = 0;
  int of_a_step = 1;
};

plan::LinkCosts profile_messages(comm::Communicator& world, const LinkLoad& load) {
  const auto [first, second] = load.links.front();
  Trips trips(world, first, second);
  const bool here = measures(world, first, second);
  const auto one_way = [&](std::size_t bytes, std::chrono::microseconds pause,
                           std::size_t count = 1) {
    return shared(world, first, here ? trips.one_way(bytes, pause, count) : 0);
  };
  const double latency = one_way(kSmall, kWaitedFor);
  std::size_t size = kLarge;
  if (load.message > 0 && latency >= kLongLatency)
    size = std::clamp(static_cast<std::size_t>(load.message), kLeastOnLongLinks, kLarge);
  const std::size_t count = std::clamp<std::size_t>(load.of_a_step, 1, kLarge / size);
  plan::LinkCosts link;
  if (count > 1) {
    link = link_at_work({.few = latency,
                         .one = one_way(size, kNotAtAll),
                         .several = one_way(size, kNotAtAll, count),
                         .bytes = static_cast<double>(size),
                         .messages = static_cast<double>(count)});
  } else {  // what a large one takes beside a small
    const double less = one_way(kSmall, kNotAtAll), more = one_way(size, kNotAtAll);
    link = {.latency = latency, .per_byte = std::max(0.0, more - less) / static_cast<double>(size)};
  }
  link.credit = world.sends_credits() ? latency : 0;
  return profile_company(world, link, load.links, static_cast<std::int64_t>(count * size));
}

/// [pair] -> seconds from one to the other, for all. A device measures with one other at a time.
std::vector<double> ways_between(comm::Communicator& world, const std::vector<Pair>& pairs) {
  std::vector<double> seconds(pairs.size(), 0.0);
  std::vector<char> measured(pairs.size(), 0);
  while (std::ranges::count(measured, 0) > 0) {
    std::vector<char> busy(world.size(), 0);
    for (std::size_t k = 0; k < pairs.size(); ++k) {
      const auto [first, second] = pairs[k];
      if (measured[k] || busy[first] || busy[second]) continue;
      measured[k] = busy[first] = busy[second] = 1;
      if (measures(world, first, second))
        seconds[k] = Trips(world, first, second).one_way(kSmall, kWaitedFor);
    }
  }
  world.combine(seconds, comm::Combine::Max);
  return seconds;
}

}  // namespace

std::vector<std::vector<plan::Hearing>> profile_rounds(comm::Communicator& world) {
  std::vector<std::vector<plan::Hearing>> rounds;
  for (int distance = 1; distance < world.size(); distance *= 2) {
    std::vector<plan::Hearing>& round = rounds.emplace_back(world.size());
    std::vector<Pair> pairs;
    for (int d = 0; d < world.size(); ++d) {
      round[d].from = comm::combine_partner(d, distance, world.size());
      if (round[d].from >= 0) pairs.push_back(std::minmax(d, round[d].from));
    }
    std::ranges::sort(pairs);
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    const std::vector<double> seconds = ways_between(world, pairs);
    for (int d = 0; d < world.size(); ++d) {
      if (round[d].from < 0) continue;
      const auto pair = std::ranges::lower_bound(pairs, Pair(std::minmax(d, round[d].from)));
      round[d].seconds = seconds[pair - pairs.begin()];
    }
  }
  return rounds;
}

plan::LinkCosts profile_link(comm::Communicator& world, int first, int second) {
  return profile_messages(world, {.links = {{first, second}}});
}

plan::LinkCosts profile_sum(comm::Communicator& world, int first, int second) {
  const plan::LinkCosts sum =
      measures(world, first, second) ? measure_sum(world, first, second) : plan::LinkCosts();
  return {.latency = shared(world, first, sum.latency),
          .per_byte = shared(world, first, sum.per_byte)};
}

std::vector<plan::LinkCosts> profile_links(const schedule::Program& program,
                                           comm::Communicator& world) {
  const auto ends = [&](const schedule::Edge& edge, int replica) -> Pair {
    return std::minmax(program.placement[edge.from][replica], program.placement[edge.to][replica]);
  };
  // Replicas have links of the same kind.
  const auto measured = [&](const schedule::Edge& edge) {
    return ends(edge, plan::measured_replica(program, edge));
  };
  std::map<Pair, LinkLoad> loads;
  for (const schedule::Edge& edge : program.edges) {
    const Pair alone = measured(edge);
    if (alone.first == alone.second) continue;
    LinkLoad& load = loads[alone];
    load.of_a_step = program.microbatches;
    load.message = std::max({load.message, edge.forward_bytes, edge.backward_bytes});
    for (int r = plan::measured_replica(program, edge); r < program.replicas; ++r) {
      const Pair pair = ends(edge, r);
      if (pair.first != pair.second && std::ranges::count(load.links, pair) == 0)
        load.links.push_back(pair);
    }
  }
  std::map<Pair, plan::LinkCosts> links;
  for (const auto& [pair, load] : loads) links[pair] = profile_messages(world, load);
  std::vector<plan::LinkCosts> edges;
  for (const schedule::Edge& edge : program.edges) edges.push_back(links[measured(edge)]);
  return edges;
}

double profile_combine(comm::Communicator& world, int values) {
  std::vector<double> numbers(values);
  std::vector<double> seconds(kTrips);
  for (double& each : seconds) {
    const Clock::time_point start = Clock::now();
    // Whoever begins one later by a part of the way has the next one sooner by as much.
    for (int turn = 0; turn < 2; ++turn) world.combine(numbers, comm::Combine::Max);
    each = std::chrono::duration<double>(Clock::now() - start).count() / 2;
  }
  std::array<double, 1> result = {median(std::move(seconds))};
  world.combine(result, comm::Combine::Max);
  return result[0];
}

}  // namespace cleave::engine
