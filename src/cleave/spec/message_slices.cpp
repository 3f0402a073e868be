#include "cleave/spec/message_slices.h"

#include <algorithm>

namespace cleave {
namespace {

/// Slices begin at multiples of this many bytes, as sums of devices do.
constexpr std::int64_t kSliceGrain = 64;

std::int64_t border(std::int64_t bytes, int slice, int slices) {
  return slice == slices ? bytes : bytes * slice / slices / kSliceGrain * kSliceGrain;
}

}  // namespace

std::vector<MessageSlice> message_slices(int senders, int receivers, std::int64_t bytes) {
  std::vector<MessageSlice> slices;
  const int count = std::max(senders, receivers);
  for (int k = 0; k < count; ++k) {
    if (senders == receivers) {
      slices.push_back({k, k, 0, bytes});
      continue;
    }
    const MessageSlice slice{k * senders / count, k * receivers / count, border(bytes, k, count),
                             border(bytes, k + 1, count)};
    if (slice.bytes() > 0) slices.push_back(slice);
  }
  return slices;
}

std::vector<std::size_t> slice_borders(int senders, int receivers, std::int64_t bytes) {
  std::vector<std::size_t> borders(static_cast<std::size_t>(receivers) + 1, 0);
  for (const MessageSlice& slice : message_slices(senders, receivers, bytes))
    borders[static_cast<std::size_t>(slice.receiver) + 1] = static_cast<std::size_t>(slice.end);
  for (std::size_t i = 1; i < borders.size(); ++i)
    borders[i] = std::max(borders[i], borders[i - 1]);
  return borders;
}

}  // namespace cleave
