#include "cleave/train/keep/kept_state.h"

#include <algorithm>
#include <utility>

namespace cleave::train {

void KeptState::keep(std::shared_ptr<Arena> arena, std::vector<StateVersion> versions) {
  if (versions.empty()) return;
  std::vector<std::span<const std::byte>> used;
  for (const StateVersion& version : versions)
    for (const std::span<float> region : version.image.regions)
      used.push_back(std::as_bytes(region));
  arena->give_back_all_but(std::move(used));
  arenas_.push_back(std::move(arena));
  std::ranges::move(versions, std::back_inserter(versions_));
}

void KeptState::forget() {
  versions_.clear();
  arenas_.clear();
}

void KeptState::make_room_for(std::int64_t planned, std::int64_t budget) {
  for (const StateVersion& version : versions_) planned += version.image.bytes();
  if (planned > budget) forget();
}

}  // namespace cleave::train
