#include "cleave/plan/time/simulation/shared_ways.h"

#include <algorithm>

#include "cleave/base/check.h"

namespace cleave::plan::simulation {
namespace {

// TCP hands a few packets at a time to the system before it lets another connection go on; large
// loads are not cut into more turns than these.
constexpr double kTurnBytes = 1 << 14;
constexpr double kMostTurns = 64;

}  // namespace

void SharedWays::add(Key way, const LinkCosts& link, const Load& load) {
  Way& found = ways_[way];
  found.link = link;
  auto sender = std::ranges::find(found.senders, load.sender, &Sender::device);
  if (sender == found.senders.end())
    sender = found.senders.insert(found.senders.begin(), {.device = load.sender});
  sender->queue.push_back({.load = load, .left = static_cast<double>(load.bytes)});
}

double SharedWays::next_of(const Way& way) {
  if (way.end != kNotYet) return way.end;
  double first = kNever;
  for (const Sender& sender : way.senders)
    if (!sender.queue.empty()) first = std::min(first, sender.queue.front().load.ready);
  return first;
}

double SharedWays::next() const {
  double first = kNever;
  for (const auto& [key, way] : ways_) first = std::min(first, next_of(way));
  return first;
}

void SharedWays::begin_turn(Way& way, double time) {
  const auto ready = std::ranges::find_if(way.senders, [&](const Sender& sender) {
    return !sender.queue.empty() && sender.queue.front().load.ready <= time;
  });
  if (ready == way.senders.end()) return;
  std::rotate(ready, ready + 1, way.senders.end());
  Queued& queued = way.senders.back().queue.front();
  if (queued.begin == kNotYet) queued.begin = time;
  way.turn = std::min(queued.left,
                      std::max(kTurnBytes, static_cast<double>(queued.load.bytes) / kMostTurns));
  way.end = way.allowance.pass(time, way.turn, way.link.shared_per_byte, way.link.burst);
}

std::optional<SharedWays::Passed> SharedWays::advance() {
  const auto first =
      std::ranges::min_element(ways_, {}, [](const auto& keyed) { return next_of(keyed.second); });
  CLEAVE_CHECK(first != ways_.end(), "no way has anything to carry");
  Way& way = first->second;
  const double time = next_of(way);
  std::optional<Passed> passed;
  if (way.end != kNotYet) {
    std::deque<Queued>& queue = way.senders.back().queue;
    Queued& queued = queue.front();
    queued.left -= way.turn;
    way.end = kNotYet;
    if (queued.left <= 0) {
      passed = {.number = queued.load.number, .begin = queued.begin, .end = time};
      queue.pop_front();
    }
  }
  begin_turn(way, time);
  return passed;
}

}  // namespace cleave::plan::simulation
