#include "cleave/train/step/owner_part.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "cleave/base/check.h"
#include "cleave/comm/together.h"

namespace cleave::train {
namespace {

/// An announcement as numbers that f64 holds and sums exactly.
constexpr std::size_t kAnnounced = 5;

void write_to(double* numbers, const data::Announced& announced) {
  numbers[0] = static_cast<double>(announced.samples);
  numbers[1] = static_cast<double>(announced.targets);
  numbers[2] = static_cast<double>(announced.digest >> 32);
  numbers[3] = static_cast<double>(announced.digest & 0xffffffff);
  numbers[4] = 1;  // somebody has said so
}

data::Announced read_from(const double* numbers) {
  return {.samples = std::llround(numbers[0]),
          .targets = std::llround(numbers[1]),
          .digest = static_cast<std::uint64_t>(numbers[2]) << 32 |
                    static_cast<std::uint64_t>(numbers[3])};
}

}  // namespace

std::optional<int> client_of(const Config& config, const OwnerPart& part) {
  int client = 0;
  for (const edge::Owner& owner : config.edge.owners) {
    if (owner.role != edge::Role::Client) continue;
    if (owner.name == part.owner) return client;
    ++client;
  }
  return std::nullopt;
}

namespace {

/// On the server: what clients that are not here have said before.
void remember(std::vector<std::optional<data::Announced>>& remembered,
              std::vector<double>& numbers) {
  remembered.resize(numbers.size() / kAnnounced);
  for (std::size_t client = 0; client < remembered.size(); ++client) {
    double* const said = &numbers[kAnnounced * client];
    if (said[4] > 0) remembered[client] = read_from(said);
    if (said[4] == 0 && remembered[client]) write_to(said, *remembered[client]);
  }
}

}  // namespace

std::vector<std::optional<data::Announced>> exchange_announcements(const Config& config,
                                                                   const OwnerPart& part,
                                                                   comm::Communicator& processes) {
  const std::optional<int> own = client_of(config, part);
  std::vector<double> numbers(kAnnounced * static_cast<std::size_t>(config.edge.client_count()));
  comm::together(processes, [&] {
    if (!own) return;
    data::Query query = data_query(config);
    query.config.path = {{part.data, 1}};
    query.config.validation = 0.0;
    write_to(&numbers[kAnnounced * static_cast<std::size_t>(*own)], data::Data(query).announce(0));
  });
  processes.combine(numbers, comm::Combine::Sum);
  if (part.remembered != nullptr) remember(*part.remembered, numbers);
  processes.broadcast(std::as_writable_bytes(std::span(numbers)), 0).wait();
  std::vector<std::optional<data::Announced>> announced;
  for (std::size_t client = 0; client * kAnnounced < numbers.size(); ++client) {
    announced.emplace_back();
    if (static_cast<int>(client) != own)
      announced.back() = read_from(&numbers[kAnnounced * client]);
  }
  return announced;
}

Config with_own_data(Config config, const OwnerPart& part) {
  const std::optional<int> own = client_of(config, part);
  if (!own) return config;
  std::ranges::find(config.edge.owners, part.owner, &edge::Owner::name)->data = part.data;
  config.data.path.at(static_cast<std::size_t>(*own)).path = part.data;
  return config;
}

std::vector<std::string> parameters_on(const engine::CompiledStep& step, int device) {
  std::vector<std::string> names;
  for (int stage = 0; stage < step.program.stages; ++stage) {
    if (!step.holds(device, stage)) continue;
    for (const SegmentSpec& segment : step.stages[static_cast<std::size_t>(stage)])
      for (const LayerSpec& layer : segment.layers)
        for (const ParameterSpec& parameter : layer.parameters)
          for (const Piece& piece : parameter.pieces) names.push_back(piece.name);
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

}  // namespace cleave::train
