#include "cleave/train/keep/state_copies.h"

#include <algorithm>
#include <numeric>

#include "cleave/base/check.h"

namespace cleave::train {
namespace {

constexpr int kSizesTag = 0, kStripesTag = 1, kRegionsTag = 2, kFirstRegionTag = 3;

/// Goes before the description of a state.
struct Sizes {
  std::int64_t stripes = 0;
  std::int64_t regions = 0;
};

std::unique_ptr<comm::Communicator> group_of_all(comm::Communicator& world) {
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  return world.group(all);
}

std::span<float> floats_in(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

StateCopies::StateCopies(engine::Device& device, const engine::CompiledStep& step,
                         const checkpoint::CheckpointLayout& layout, comm::Communicator& world)
    : world_(group_of_all(world)), own_(image_of(device, layout, Whose::Own)) {
  std::span<float> room = floats_in(device.held());
  if (room.empty()) return;
  before_ = take_room(own_.elements(), room);
  const int devices = world.size();
  for (int i = 1; i <= step.copies; ++i) {
    holders_.push_back((world.rank() + i) % devices);
    held_.push_back({.device = (world.rank() - i + devices) % devices});
  }
  exchange_descriptions();
  std::size_t messages = holders_.size() * own_.regions.size();
  for (Held& held : held_) {
    const std::int64_t elements =
        std::accumulate(held.regions.begin(), held.regions.end(), std::int64_t{0});
    for (std::span<float>& version : held.rooms) version = take_room(elements, room);
    messages += held.regions.size();
  }
  flights_.reserve(messages);
  world_->make_room(/*collectives=*/0, messages);
}

std::span<float> StateCopies::take_room(std::int64_t elements, std::span<float>& room) {
  CLEAVE_CHECK(elements <= std::ssize(room), "copies of state have no room");
  const std::span<float> taken = room.first(static_cast<std::size_t>(elements));
  room = room.subspan(taken.size());
  return taken;
}

/// What a copy consists of stays the same, so it is told once.
void StateCopies::exchange_descriptions() {
  const Sizes sizes{std::ssize(own_.stripes), std::ssize(own_.regions)};
  std::vector<std::int64_t> regions;
  for (const std::span<float> region : own_.regions) regions.push_back(std::ssize(region));
  // Everybody tells before he listens, and waits for neither in between.
  std::vector<comm::Pending> told;
  for (const int holder : holders_) {
    told.push_back(world_->send(std::as_bytes(std::span(&sizes, 1)), holder, kSizesTag));
    told.push_back(world_->send(std::as_bytes(std::span(own_.stripes)), holder, kStripesTag));
    told.push_back(world_->send(std::as_bytes(std::span(regions)), holder, kRegionsTag));
  }
  for (Held& held : held_) {
    Sizes to_come;
    const auto hear = [&](auto values, int tag) {
      world_->receive(std::as_writable_bytes(values), held.device, tag).wait();
    };
    hear(std::span(&to_come, 1), kSizesTag);
    held.stripes.resize(static_cast<std::size_t>(to_come.stripes));
    held.regions.resize(static_cast<std::size_t>(to_come.regions));
    hear(std::span(held.stripes), kStripesTag);
    hear(std::span(held.regions), kRegionsTag);
  }
  for (comm::Pending& each : told) each.wait();
}

void StateCopies::begin_step(std::int64_t done) {
  live_ = done_ = done;
  if (arrived_ == done || holders_.empty()) return;
  travels_ = done;
  for (Held& held : held_) receive(held);
  for (const int holder : holders_) {
    for (std::size_t i = 0; i < own_.regions.size(); ++i)
      flights_.push_back(world_->send(std::as_bytes(own_.regions[i]), holder,
                                      kFirstRegionTag + static_cast<int>(i)));
  }
}

/// In place of the older of the two versions.
void StateCopies::receive(Held& held) {
  held.coming = held.steps[0] && held.steps[0] == arrived_ ? 1 : 0;
  held.steps[held.coming].reset();
  std::span<float> room = held.rooms[held.coming];
  for (std::size_t i = 0; i < held.regions.size(); ++i)
    flights_.push_back(world_->receive(std::as_writable_bytes(take_room(held.regions[i], room)),
                                       held.device, kFirstRegionTag + static_cast<int>(i)));
}

void StateCopies::before_norm() {
  if (!travels_) return;
  for (comm::Pending& flight : flights_) flight.wait();
  flights_.clear();
  for (Held& held : held_) held.steps[held.coming] = travels_;
  arrived_ = travels_;
  travels_.reset();
}

void StateCopies::copy_now(std::int64_t done) {
  begin_step(done);
  before_norm();
}

void StateCopies::before_update() {
  live_.reset();
  if (before_.empty()) return;
  kept_.reset();
  std::span<float> room = before_;
  for (const std::span<float> region : own_.regions)
    std::ranges::copy(region, take_room(std::ssize(region), room).begin());
  kept_ = done_;
}

void StateCopies::after_update() {
  live_ = done_ + 1;
}

std::vector<StateVersion> StateCopies::versions() const {
  std::vector<StateVersion> versions;
  if (live_) versions.push_back({*live_, own_});
  if (kept_) versions.push_back({*kept_, image_in(own_.stripes, before_)});
  for (const Held& held : held_) {
    for (int i = 0; i < 2; ++i)
      if (held.steps[i])
        versions.push_back({*held.steps[i], image_in(held.stripes, held.rooms[i])});
  }
  return versions;
}

}  // namespace cleave::train
