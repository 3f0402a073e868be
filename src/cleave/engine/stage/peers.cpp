#include "cleave/engine/stage/peers.h"

#include "cleave/spec/message_slices.h"

namespace cleave::engine {

Peers::Peers(comm::Communicator& world) : Peers(world, {.pipeline = world.size()}, world.rank()) {}

Peers::Peers(comm::Communicator& world, const Mesh& mesh, int device)
    : world_(&world), mesh_(mesh), place_(mesh.place_of(device)), number_(mesh.number_of(device)) {}

std::unique_ptr<comm::Communicator> Peers::group(std::span<const int> places) const {
  std::vector<int> devices;
  for (const int place : places) devices.push_back(mesh_.device_at(PlaceId{place}, number_));
  return world_->group(devices);
}

std::vector<Peers::Slice> Peers::sent(int place, std::int64_t bytes) const {
  std::vector<Slice> own;
  for (const MessageSlice& slice :
       message_slices(mesh_.devices_at(place_), mesh_.devices_at(place), bytes))
    if (slice.sender == number_)
      own.push_back({mesh_.device_at(PlaceId{place}, slice.receiver),
                     static_cast<std::size_t>(slice.begin), static_cast<std::size_t>(slice.end)});
  return own;
}

std::vector<Peers::Slice> Peers::received(int place, std::int64_t bytes) const {
  std::vector<Slice> own;
  for (const MessageSlice& slice :
       message_slices(mesh_.devices_at(place), mesh_.devices_at(place_), bytes))
    if (slice.receiver == number_)
      own.push_back({mesh_.device_at(PlaceId{place}, slice.sender),
                     static_cast<std::size_t>(slice.begin), static_cast<std::size_t>(slice.end)});
  return own;
}

std::vector<std::size_t> Peers::gathered(int place, std::int64_t bytes) const {
  const int senders = mesh_.devices_at(place);
  const int receivers = mesh_.devices_at(place_);
  if (!gathers_slices(senders, receivers)) return {};
  return slice_borders(senders, receivers, bytes);
}

}  // namespace cleave::engine
