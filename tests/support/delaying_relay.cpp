#include "support/delaying_relay.h"

#include <array>
#include <span>
#include <utility>

namespace cleave::testing {

DelayingRelay::DelayingRelay(comm::Address target, std::chrono::microseconds delay)
    : target_(std::move(target)), delay_(delay), thread_([this] { run(); }) {}

DelayingRelay::~DelayingRelay() {
  stop_ = true;
  thread_.join();
}

void DelayingRelay::run() {
  while (!stop_) {
    if (std::optional<comm::Stream> near = listener_.accept(nullptr))
      ways_.push_back({std::move(*near), comm::Stream::connect(target_, nullptr)});
    std::erase_if(ways_, [&](Way& way) { return !pass_on(way); });
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

/// False once the way is at its end.
bool DelayingRelay::pass_on(Way& way) const {
  try {
    if (!way.far.open()) return true;
    carry(way.near, way.far, way.there);
    carry(way.far, way.near, way.back);
  } catch (const comm::ConnectionBroken&) {
    return false;
  }
  return true;
}

void DelayingRelay::carry(comm::Stream& from, comm::Stream& to, std::deque<Parcel>& parcels) const {
  std::array<std::byte, 16'384> buffer;
  while (const std::size_t count = from.read(buffer))
    parcels.push_back({Clock::now() + delay_, {buffer.begin(), buffer.begin() + count}});
  while (!parcels.empty() && parcels.front().due <= Clock::now()) {
    Parcel& parcel = parcels.front();
    const std::size_t count = to.write(std::span(parcel.bytes).subspan(parcel.written));
    parcel.written += count;
    if (parcel.written < parcel.bytes.size()) return;
    parcels.pop_front();
  }
}

}  // namespace cleave::testing
