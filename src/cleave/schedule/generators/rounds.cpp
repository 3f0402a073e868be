#include "cleave/schedule/generators/rounds.h"

#include <algorithm>

namespace cleave::schedule {
namespace {

struct Turn {
  int chunk;
  MicrobatchId microbatch;
};

/// The forwards of a device, by rounds of so many microbatches: a round through chunk 0, the same
/// round through chunk 1, and so on; then the next round.
std::vector<Turn> turns_of(const std::vector<int>& rounds, int chunks) {
  std::vector<Turn> turns;
  int first = 0;
  for (const int size : rounds) {
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (MicrobatchId mb{first}; mb < first + size; ++mb) turns.push_back({chunk, mb});
    first += size;
  }
  return turns;
}

}  // namespace

Program in_rounds(std::string_view name, const PipelineShape& shape,
                  const std::vector<int>& rounds) {
  Draft draft(name, shape, Fold::Loop);
  const std::vector<Turn> turns = turns_of(rounds, shape.chunks);
  const int count = static_cast<int>(turns.size());
  for (DeviceId device{0}; device < shape.devices; ++device) {
    const auto forward = [&](int k) { draft.forward(device, turns[k].chunk, turns[k].microbatch); };
    const auto backward = [&](int k) {
      draft.backward(device, shape.chunks - 1 - turns[k].chunk, turns[k].microbatch);
    };
    const int ahead =
        std::min(2 * (shape.devices - 1 - device) + (shape.chunks - 1) * rounds.front(), count);
    for (int k = 0; k < ahead; ++k) forward(k);
    for (int k = 0; k < count - ahead; ++k) {
      forward(k + ahead);
      backward(k);
    }
    for (int k = count - ahead; k < count; ++k) backward(k);
  }
  return std::move(draft).finish();
}

}  // namespace cleave::schedule
