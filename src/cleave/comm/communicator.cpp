#include "cleave/comm/communicator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cleave/base/check.h"

namespace cleave::comm {
namespace {

std::vector<int> all_devices(const Transport& transport) {
  std::vector<int> devices(static_cast<std::size_t>(transport.devices()));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

}  // namespace

Communicator::Communicator(Transport& transport)
    : Communicator(transport, /*context=*/0, all_devices(transport)) {}

Communicator::Communicator(Transport& transport, int context, std::vector<int> devices)
    : transport_(&transport), context_(context), devices_(std::move(devices)) {
  const auto self = std::find(devices_.begin(), devices_.end(), transport.device());
  CLEAVE_CHECK(self != devices_.end(), "device ", transport.device(), " is not in its own group");
  rank_ = static_cast<int>(self - devices_.begin());
}

Pending Communicator::post(Message message, Traffic traffic) {
  CLEAVE_CHECK(0 <= message.member && message.member < size() && message.member != rank_, "device ",
               device(rank_), " and member ", message.member, " of ", size());
  message.context = context_;
  message.peer = devices_[static_cast<std::size_t>(message.member)];
  if (message.direction == Direction::Send) {
    transport_->count(traffic, static_cast<std::int64_t>(message.bytes.size()));
  }
  return Pending(*transport_, transport_->post(message));
}

Pending Communicator::send(std::span<const std::byte> bytes, int to, int tag) {
  CLEAVE_CHECK(0 <= tag && tag < kTags, "tag ", tag);
  return post({.direction = Direction::Send,
               .member = to,
               .tag = tag,
               .bytes = {const_cast<std::byte*>(bytes.data()), bytes.size()}},
              Traffic::Message);
}

Pending Communicator::receive(std::span<std::byte> bytes, int from, int tag) {
  CLEAVE_CHECK(0 <= tag && tag < kTags, "tag ", tag);
  return post({.direction = Direction::Receive, .member = from, .tag = tag, .bytes = bytes},
              Traffic::Message);
}

std::unique_ptr<Communicator> Communicator::group(std::span<const int> members) {
  std::vector<int> devices;
  for (const int member : members) {
    CLEAVE_CHECK(0 <= member && member < size(), "member ", member, " of a group of ", size());
    CLEAVE_CHECK(std::find(devices.begin(), devices.end(), device(member)) == devices.end(),
                 "member ", member, " twice");
    devices.push_back(device(member));
  }
  const int context = transport_->open_context(context_, devices);
  return std::unique_ptr<Communicator>(new Communicator(*transport_, context, std::move(devices)));
}

}  // namespace cleave::comm
