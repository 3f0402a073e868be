#include "cleave/comm/together.h"

#include <exception>
#include <span>

namespace cleave::comm {

void together(Communicator& world, const std::function<void()>& act) {
  std::exception_ptr mine;
  try {
    act();
  } catch (...) {
    mine = std::current_exception();
  }
  double failed = mine ? world.rank() : world.size();
  world.combine(std::span(&failed, 1), Combine::Min);
  const int first = static_cast<int>(failed);
  if (first == world.size()) return;
  if (first == world.rank()) std::rethrow_exception(mine);
  throw PeerFailed("device " + std::to_string(world.device(first)) + " failed");
}

void broadcast(Communicator& world, std::string& text) {
  if (world.size() == 1) return;
  double length = static_cast<double>(text.size());
  world.broadcast(std::as_writable_bytes(std::span(&length, 1)), 0).wait();
  text.resize(static_cast<std::size_t>(length));
  if (!text.empty()) world.broadcast(std::as_writable_bytes(std::span(text)), 0).wait();
}

std::vector<std::string> gather(Communicator& world, const std::string& text) {
  const auto members = static_cast<std::size_t>(world.size());
  std::vector<double> lengths(members);
  lengths[static_cast<std::size_t>(world.rank())] = static_cast<double>(text.size());
  world.combine(lengths, Combine::Sum);
  std::vector<std::size_t> borders = {0};
  for (const double length : lengths)
    borders.push_back(borders.back() + static_cast<std::size_t>(length));
  std::string whole(borders.back(), '\0');
  text.copy(whole.data() + borders[static_cast<std::size_t>(world.rank())], text.size());
  if (!whole.empty()) world.all_gather(std::as_writable_bytes(std::span(whole)), borders).wait();
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < members; ++i)
    texts.push_back(whole.substr(borders[i], borders[i + 1] - borders[i]));
  return texts;
}

}  // namespace cleave::comm
