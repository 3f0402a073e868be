#include "edge/edge_summary.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/units.h"
#include "cleave/train/step/round_clients.h"

namespace cleave::app {
namespace {

/// "1 epoch", "20 local steps".
std::string describe_work(const train::EdgeConfig& edge) {
  return counted(edge.sync_every, edge.sync_epochs ? "epoch" : "local step");
}

/// What is done to updates on their way.
std::string describe_privacy(const train::Config& config) {
  const train::EdgeConfig& edge = config.edge;
  std::string text;
  if (edge.codec != "none") text += fmt::format(", updates as {}", edge.codec);
  if (edge.secure) text += ", updates under masks";
  if (edge.noise > 0)
    text += fmt::format(", noise {} over updates of length {}: ε {:.4g} at δ {} after {}",
                        edge.noise, edge.clip, train::privacy_spent(config, config.train.steps),
                        edge.delta, counted(config.train.steps, "round"));
  if (edge.by_example())
    text +=
        fmt::format(", noise {} over every step's examples, whose gradients are {} long at most",
                    edge.example_noise, edge.example_clip);
  return text;
}

}  // namespace

std::string describe_owners(const train::Config& config) {
  const train::EdgeConfig& edge = config.edge;
  if (edge.in_order)
    return fmt::format(
        "{} of {} take turns of {} in every round, at one copy of the server's layers; theirs are "
        "averaged by {}; train.steps counts rounds\n",
        edge.per_round(), counted(edge.client_count(), "client"), describe_work(edge), edge.outer);
  if (edge.averages())
    return fmt::format("averages {} of {} by {}, after {} of each{}; train.steps counts rounds\n",
                       edge.per_round(), counted(edge.client_count(), "client"), edge.outer,
                       describe_work(edge), describe_privacy(config));
  const std::vector<int> owners = train::device_owners(config);
  if (owners.empty()) return "";
  std::string text = "owners:";
  for (std::size_t i = 0; i < config.edge.owners.size(); ++i) {
    text += fmt::format("{} {} has devices", i == 0 ? "" : ";", config.edge.owners[i].name);
    for (std::size_t device = 0; device < owners.size(); ++device)
      if (owners[device] == static_cast<int>(i)) text += fmt::format(" {}", device);
  }
  if (edge.codec != "none" || edge.codec_back != "none")
    text += fmt::format("; cuts as {} forward and {} backward", edge.codec, edge.codec_back);
  return text + " (what leaves whom: cleave verify --flow)\n";
}

std::string describe_rounds(const train::RunReport& report) {
  if (!report.averaged || report.averaged->rounds == 0) return "";
  const train::RunReport::Averaged& all = *report.averaged;
  const double rounds = static_cast<double>(all.rounds);
  const double taken = static_cast<double>(std::max<std::int64_t>(1, all.participants));
  std::string text = fmt::format(
      "{} of {}, {:.3g} of which took part in each, with {:.3g} local steps; a client sends {} and "
      "is sent {} in a round, {} in all",
      counted(all.rounds, "round"), counted(all.clients, "client"),
      static_cast<double>(all.participants) / rounds, static_cast<double>(all.local_steps) / taken,
      format_bytes(all.up_bytes), format_bytes(all.down_bytes),
      format_bytes(all.sent_bytes + all.participants * all.down_bytes));
  if (all.absent > 0) text += fmt::format("; {} did not answer", counted(all.absent, "client"));
  if (all.epsilon > 0) text += fmt::format("; ε {:.4g} spent", all.epsilon);
  if (all.seconds) text += fmt::format("; a round took {}", format_seconds(*all.seconds));
  if (all.seconds && all.predicted_seconds)
    text += fmt::format(", predicted {}", format_seconds(*all.predicted_seconds));
  return text + "\n";
}

namespace {

nlohmann::json or_null(const std::optional<double>& number) {
  return number ? nlohmann::json(*number) : nlohmann::json();
}

}  // namespace

nlohmann::json rounds_json(const train::RunReport& report) {
  if (!report.averaged) return nullptr;
  const train::RunReport::Averaged& averaged = *report.averaged;
  return {{"clients", averaged.clients},
          {"rounds", averaged.rounds},
          {"participants", averaged.participants},
          {"local_steps", averaged.local_steps},
          {"up_bytes", averaged.up_bytes},
          {"down_bytes", averaged.down_bytes},
          {"absent", averaged.absent},
          {"sent_bytes", averaged.sent_bytes},
          {"bytes", averaged.sent_bytes + averaged.participants * averaged.down_bytes},
          {"seconds", or_null(averaged.seconds)},
          {"predicted_seconds", or_null(averaged.predicted_seconds)},
          {"epsilon", averaged.epsilon > 0 ? nlohmann::json(averaged.epsilon) : nlohmann::json()}};
}

}  // namespace cleave::app
