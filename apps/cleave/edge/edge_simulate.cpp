#include "edge/edge_simulate.h"

#include <cmath>
#include <memory>

#include "files.h"
#include "json_text.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/data/dataset.h"
#include "cleave/edge/population.h"
#include "cleave/report/text_table.h"
#include "cleave/train/step/client_data.h"
#include "cleave/train/step/owner_flow.h"
#include "cleave/train/step/round_clients.h"
#include "cleave/train/step/trainer.h"

namespace cleave::app {
namespace {

struct SimulateFlags {
  std::string config;
  std::vector<std::string> set;
  std::int64_t rounds = 20;
  double more = 1.3;
  std::string down = "4MB";
  std::string up = "1MB";
  std::string server = "1GB";
  std::string latency = "40ms";
  edge::Population population;
  double patience = 2;
  bool json = false;
};

/// What rounds of the config ask of each client.
edge::RoundWork work_of(const train::Config& config, const SimulateFlags& flags) {
  const Graph model = train::model_of(config);
  const data::Data data(train::data_query(config));
  const train::ClientData clients = *train::client_data(config, data);
  const train::RoundBytes bytes = train::round_bytes(config, model);
  const double step = static_cast<double>(flops(model)) *
                      static_cast<double>(config.train.batch / *config.train.microbatch);
  edge::RoundWork work{.answers = config.edge.per_round(),
                       .patience = flags.patience,
                       .up_bytes = static_cast<double>(bytes.up),
                       .down_bytes = static_cast<double>(bytes.down)};
  work.asked = std::min<std::int64_t>(
      clients.clients(), std::llround(std::ceil(static_cast<double>(work.answers) * flags.more)));
  for (int client = 0; client < clients.clients(); ++client)
    work.flops.push_back(
        step * static_cast<double>(train::local_steps(config, clients.windows_of(client))));
  return work;
}

edge::Population population_of(const train::Config& config, const SimulateFlags& flags) {
  edge::Population population = flags.population;
  population.down_bytes_per_second = static_cast<double>(parse_bytes(flags.down));
  population.up_bytes_per_second = static_cast<double>(parse_bytes(flags.up));
  population.server_rate = static_cast<double>(parse_bytes(flags.server));
  population.latency = parse_seconds(flags.latency);
  population.seed = config.train.seed;
  const auto positive = [](double rate, const char* flag) {
    require(rate > 0, flag, " is 0, and nothing would ever arrive; give a rate above 0");
  };
  positive(population.down_bytes_per_second, "--down");
  positive(population.up_bytes_per_second, "--up");
  positive(population.server_rate, "--server");
  return population;
}

double mean_of(const std::vector<edge::SimulatedRound>& rounds) {
  double sum = 0;
  for (const edge::SimulatedRound& round : rounds) sum += round.played;
  return sum / static_cast<double>(rounds.size());
}

std::string rounds_text(const std::vector<edge::SimulatedRound>& rounds,
                        const edge::RoundWork& work) {
  std::vector<std::vector<std::string>> rows = {
      {"round", "predicted", "played", "answered", "late", "absent"}};
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const edge::SimulatedRound& round = rounds[i];
    rows.push_back({fmt::format("{}", i + 1), format_seconds(round.predicted),
                    format_seconds(round.played), fmt::format("{}", round.answered),
                    fmt::format("{}", round.late), fmt::format("{}", round.absent)});
  }
  return fmt::format(
             "{}, of which {} are asked and {} awaited; each is sent {} and sends {} in a round\n",
             counted(std::ssize(work.flops), "client"), work.asked, work.answers,
             format_bytes(static_cast<std::int64_t>(work.down_bytes)),
             format_bytes(static_cast<std::int64_t>(work.up_bytes))) +
         report::text_table(rows) +
         fmt::format("a round takes {} in the mean, {} were predicted; nothing was trained\n",
                     format_seconds(mean_of(rounds)), format_seconds(rounds[0].predicted));
}

std::string rounds_json_text(const std::vector<edge::SimulatedRound>& rounds,
                             const edge::RoundWork& work) {
  nlohmann::json list = nlohmann::json::array();
  for (const edge::SimulatedRound& round : rounds)
    list.push_back({{"predicted_seconds", round.predicted},
                    {"seconds", round.played},
                    {"answered", round.answered},
                    {"late", round.late},
                    {"absent", round.absent}});
  const nlohmann::json json = {{"clients", work.flops.size()},
                               {"asked", work.asked},
                               {"awaited", work.answers},
                               {"up_bytes", work.up_bytes},
                               {"down_bytes", work.down_bytes},
                               {"mean_seconds", mean_of(rounds)},
                               {"rounds", list}};
  return json_text(json, 2);
}

void simulate(const SimulateFlags& flags) {
  const train::Config config = train::load_config(flags.config, {.overrides = flags.set});
  require(!config.edge.in_order, flags.config,
          " has edge.in_order, and clients that take turns are not simulated; leave it out");
  require(config.edge.averages(), flags.config,
          " averages nothing, so there are no rounds to simulate; set edge.sync_every and "
          "edge.clients (docs/federated.md)");
  const edge::RoundWork work = work_of(config, flags);
  const edge::RoundSimulator simulator(population_of(config, flags), work);
  std::vector<edge::SimulatedRound> rounds;
  for (std::int64_t round = 0; round < flags.rounds; ++round)
    rounds.push_back(simulator.play(round));
  write_file("", flags.json ? rounds_json_text(rounds, work) : rounds_text(rounds, work));
}

}  // namespace

void add_edge_simulate_command(CLI::App& edge) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App* verb = edge.add_subcommand(
      "simulate", "Play rounds of many clients in virtual time, beside what was predicted.");
  verb->add_option("config", flags->config, "A config with edge.sync_every")->required();
  verb->add_option("--set", flags->set, "Override a key (repeatable)")->allow_extra_args(false);
  verb->add_option("--rounds", flags->rounds, "How many")
      ->capture_default_str()
      ->check(CLI::Range(1, 100'000));
  verb->add_option("--more", flags->more, "Clients asked for each answer awaited")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 100.0));
  verb->add_option("--flops", flags->population.flops_per_second,
                   "Operations per second of a client in the middle")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  verb->add_option("--down", flags->down, "Bytes per second to it")->capture_default_str();
  verb->add_option("--up", flags->up, "Bytes per second from it")->capture_default_str();
  verb->add_option("--server", flags->server, "Bytes per second of the server's link")
      ->capture_default_str();
  verb->add_option("--latency", flags->latency, "Of a message each way")->capture_default_str();
  verb->add_option("--spread", flags->population.spread,
                   "How much clients differ: of the logarithm of speeds and links")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 5.0));
  verb->add_option("--absence", flags->population.absence,
                   "Chance of a client to be gone before it answers")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.99));
  verb->add_option("--patience", flags->patience,
                   "A round ends after so many times the predicted seconds")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1000.0));
  verb->add_flag("--json", flags->json, "Print one JSON object");
  verb->footer(
      "Speeds, links and absences are drawn from train.seed; the model, the data and [edge] say "
      "what each client computes and sends. Nothing is trained.\n"
      "Example:\n"
      "  cleave edge simulate run.toml --set edge.clients=10000 --set edge.sample=100");
  verb->callback([flags] { simulate(*flags); });
}

}  // namespace cleave::app
