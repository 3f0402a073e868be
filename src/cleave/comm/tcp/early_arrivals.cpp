#include "cleave/comm/tcp/early_arrivals.h"

#include <algorithm>
#include <utility>

#include "cleave/comm/tcp/frame.h"

namespace cleave::comm {

std::uint64_t early_cost(std::uint64_t length) {
  return length + kHeaderBytes;
}

std::optional<std::span<std::byte>> EarlyArrivals::begin(const MessageKey& key,
                                                         std::uint64_t length) {
  if (length > room_ || early_cost(length) > room_ - held_) return std::nullopt;
  held_ += early_cost(length);
  Arrival& arrival = messages_.emplace_back();
  arrival.key = key;
  arrival.bytes = spare_.take(length);
  arrival.bytes.resize(length);
  begun_ = true;
  return arrival.bytes;
}

void EarlyArrivals::forget_begun() {
  if (std::exchange(begun_, false)) forget(messages_.size() - 1);
}

void EarlyArrivals::forget(std::size_t at) {
  held_ -= early_cost(messages_[at].bytes.size());
  spare_.give_back(std::move(messages_[at].bytes));
  messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(at));
}

void EarlyDepartures::add(const MessageKey& key, std::uint64_t length) {
  held_ += early_cost(length);
  messages_.push_back({key, length});
}

std::optional<std::uint64_t> EarlyDepartures::take(const MessageKey& key) {
  const auto found = std::ranges::find(messages_, key, &Departure::key);
  if (found == messages_.end()) return std::nullopt;
  const std::uint64_t length = found->length;
  held_ -= early_cost(length);
  messages_.erase(found);
  return length;
}

}  // namespace cleave::comm
