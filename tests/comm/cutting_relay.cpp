#include "comm/cutting_relay.h"

#include <array>
#include <chrono>
#include <utility>

namespace cleave::testing {

CuttingRelay::CuttingRelay(comm::Address target, std::size_t bytes, int cuts)
    : target_(std::move(target)), bytes_(bytes), cuts_(cuts), thread_([this] { run(); }) {}

CuttingRelay::~CuttingRelay() {
  stop_ = true;
  thread_.join();
}

void CuttingRelay::run() {
  while (!stop_) {
    if (std::optional<comm::Stream> near = listener_.accept(nullptr))
      ways_.push_back({std::move(*near), comm::Stream::connect(target_, nullptr)});
    std::erase_if(ways_, [&](Way& way) { return !pass_on(way); });
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

/// False once the way is at its end.
bool CuttingRelay::pass_on(Way& way) {
  std::array<std::byte, 10'000> buffer;
  try {
    if (!way.far.open()) return true;
    for (auto [from, to] : {std::pair(&way.near, &way.far), std::pair(&way.far, &way.near)}) {
      const std::size_t count = from->read(buffer);
      for (std::size_t at = 0; at < count;)
        at += to->write(std::span(buffer).first(count).subspan(at));
      way.passed += count;
    }
  } catch (const comm::ConnectionBroken&) {
    return false;
  }
  if (cuts_ == 0 || way.passed < bytes_) return true;
  --cuts_;
  return false;
}

}  // namespace cleave::testing
