#include "cleave/train/step/client_data.h"

#include <numeric>

#include "cleave/base/check.h"
#include "cleave/edge/partition.h"

namespace cleave::train {
namespace {

/// [window] -> its label: the class of an image, and of a text the source that it comes from.
std::vector<int> labels_of(const Config& config, const data::Dataset& data) {
  std::vector<int> labels;
  if (!config.model.kind->reads_tokens) {
    for (std::int64_t window = 0; window < data.windows(); ++window) {
      std::int32_t label = 0;
      data.read(window, "labels", {.ids = {&label, 1}});
      labels.push_back(label);
    }
    return labels;
  }
  const std::vector<std::int64_t> sources = data.source_windows();
  for (std::size_t source = 0; source < sources.size(); ++source)
    labels.insert(labels.end(), static_cast<std::size_t>(sources[source]),
                  static_cast<int>(source));
  return labels;
}

/// Every source is a client's own.
ClientData brought(const std::vector<std::int64_t>& sources, std::int64_t seed) {
  std::vector<std::vector<std::int64_t>> windows;
  std::int64_t first = 0;
  for (const std::int64_t count : sources) {
    std::vector<std::int64_t>& own = windows.emplace_back(static_cast<std::size_t>(count));
    std::iota(own.begin(), own.end(), first);
    first += count;
  }
  return ClientData(std::move(windows), seed);
}

}  // namespace

ClientData::ClientData(std::vector<std::vector<std::int64_t>> windows, std::int64_t seed)
    : windows_(std::move(windows)) {
  for (std::size_t client = 0; client < windows_.size(); ++client) {
    CLEAVE_CHECK(!windows_[client].empty(), "client ", client, " has no data");
    orders_.emplace_back(windows_[client].size(), static_cast<std::uint64_t>(seed),
                         detail::concat("client ", client));
  }
}

std::int64_t ClientData::window(int client, std::int64_t number) const {
  const std::vector<std::int64_t>& own = windows_[client];
  const std::int64_t count = std::ssize(own);
  return own[orders_[client].at(static_cast<std::uint64_t>(number / count),
                                static_cast<std::uint64_t>(number % count))];
}

std::optional<ClientData> client_data(const Config& config, const data::Data& data) {
  const EdgeConfig& edge = config.edge;
  if (!edge.averages() && !edge.has_own_data()) return std::nullopt;
  if (edge.has_own_data()) return brought(data.training().source_windows(), config.train.seed);
  return ClientData(
      edge::share_out(labels_of(config, data.training()), {.rule = edge.partition,
                                                           .clients = edge.client_count(),
                                                           .alpha = edge.alpha,
                                                           .labels = edge.labels,
                                                           .seed = config.train.seed}),
      config.train.seed);
}

}  // namespace cleave::train
