#include "serve/epoch_devices.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace cleave::app {

using comm::Candidate;

std::vector<std::int64_t> seats_of(const std::vector<Candidate>& candidates) {
  std::vector<std::int64_t> seats;
  for (const Candidate& candidate : candidates) seats.push_back(candidate.seat);
  return seats;
}

std::vector<std::int64_t> EpochDevices::seats() const {
  std::vector<std::int64_t> all = seats_of(members);
  std::ranges::copy(seats_of(givers), std::back_inserter(all));
  return all;
}

bool EpochDevices::are_all_among(const std::vector<Candidate>& candidates) const {
  return std::ranges::all_of(members, [&](const Candidate& member) {
    return std::ranges::find(candidates, member.seat, &Candidate::seat) != candidates.end();
  });
}

void EpochDevices::go_on_with(std::vector<Candidate> candidates, std::int64_t count) {
  const std::vector<std::int64_t> before = seats();
  const auto others = candidates.begin() + count;
  givers.assign(others, candidates.end());
  std::erase_if(givers, [&](const Candidate& candidate) {
    return std::ranges::find(before, candidate.seat) == before.end();
  });
  candidates.erase(others, candidates.end());
  members = std::move(candidates);
}

}  // namespace cleave::app
