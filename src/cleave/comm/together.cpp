#include "cleave/comm/together.h"

#include <algorithm>
#include <exception>
#include <span>
#include <vector>

namespace cleave::comm {

void together(Communicator* world, const std::function<void()>& act) {
  if (world == nullptr) return act();
  std::exception_ptr mine;
  try {
    act();
  } catch (...) {
    mine = std::current_exception();
  }
  std::vector<double> failed(static_cast<std::size_t>(world->size()));
  failed[static_cast<std::size_t>(world->rank())] = mine ? 1 : 0;
  world->combine(failed, Combine::Sum);
  const auto first = std::ranges::find(failed, 1.0) - failed.begin();
  if (first == world->size()) return;
  if (first == world->rank()) std::rethrow_exception(mine);
  throw PeerFailed("device " + std::to_string(world->device(static_cast<int>(first))) + " failed");
}

void broadcast(Communicator* world, std::string& text) {
  if (world == nullptr) return;
  double length = static_cast<double>(text.size());
  world->broadcast(std::as_writable_bytes(std::span(&length, 1)), 0).wait();
  text.resize(static_cast<std::size_t>(length));
  if (!text.empty()) world->broadcast(std::as_writable_bytes(std::span(text)), 0).wait();
}

}  // namespace cleave::comm
