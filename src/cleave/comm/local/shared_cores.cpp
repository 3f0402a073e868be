#include "cleave/comm/local/shared_cores.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <unistd.h>

namespace cleave::comm {

SharedCores::SharedCores(int devices, std::vector<HardwareThreads> places)
    : places_(std::move(places)), devices_(devices), free_(places_.size()) {
  std::iota(free_.begin(), free_.end(), 0);
  queue_.reserve(devices_.size());
}

SharedCores::Device* SharedCores::take(Device& device, int place) {
  device.place = device.last_place = place;
  if (!places_[place].empty()) pin_thread(device.thread, places_[place]);
  return &device;
}

SharedCores::Device* SharedCores::claim(Device& device) {
  if (free_.empty()) {
    queue_.push_back(&device);
    return nullptr;
  }
  auto place = std::ranges::find(free_, device.last_place);  // its caches may still know it
  if (place == free_.end()) place = free_.begin();
  const int taken = *place;
  free_.erase(place);
  return take(device, taken);
}

SharedCores::Device* SharedCores::give_away(Device& device) {
  const int place = std::exchange(device.place, kNone);
  if (place == kNone) return nullptr;
  if (queue_.empty()) {
    free_.push_back(place);
    return nullptr;
  }
  Device& next = *queue_.front();
  queue_.erase(queue_.begin());
  return take(next, place);
}

void SharedCores::enter(int device) {
  std::unique_lock lock(mutex_);
  Device& self = devices_[device];
  self.thread = gettid();
  claim(self);
  self.turn.wait(lock, [&] { return self.place != kNone; });
}

void SharedCores::leave(int device) {
  std::unique_lock lock(mutex_);
  Device* next = give_away(devices_[device]);
  lock.unlock();
  tell(next);
}

void SharedCores::give_way(int device) {
  std::unique_lock lock(mutex_);
  if (queue_.empty()) return;
  Device& self = devices_[device];
  queue_.push_back(&self);
  await_core(self, lock, Clock::time_point::max());
}

void SharedCores::sleep(int device, const News& news) {
  std::unique_lock lock(mutex_);
  if (news.events.load() != news.seen) return;
  Device& self = devices_[device];
  self.asleep = true;
  await_core(self, lock, news.deadline);
}

void SharedCores::regain(int device, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  Device& self = devices_[device];
  if (self.place != kNone || claim(self) != nullptr) return;
  await_core(self, lock, deadline);
}

void SharedCores::await_core(Device& self, std::unique_lock<std::mutex>& lock,
                             Clock::time_point deadline) {
  Device* next = give_away(self);
  lock.unlock();
  tell(next);
  lock.lock();
  const auto has_core = [&] { return self.place != kNone; };
  if (deadline == Clock::time_point::max()) {
    self.turn.wait(lock, has_core);
  } else if (!self.turn.wait_until(lock, deadline, has_core)) {
    self.asleep = false;
    std::erase(queue_, &self);
  }
}

void SharedCores::wake(int device) {
  std::unique_lock lock(mutex_);
  Device& sleeper = devices_[device];
  if (!std::exchange(sleeper.asleep, false)) return;
  Device* awake = claim(sleeper);
  lock.unlock();
  tell(awake);
}

}  // namespace cleave::comm
