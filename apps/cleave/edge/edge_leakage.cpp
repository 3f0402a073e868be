#include "edge/edge_leakage.h"

#include <memory>
#include <string>
#include <vector>

#include "files.h"
#include "json_text.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/train/evaluate/leakage.h"

namespace cleave::app {
namespace {

struct LeakageFlags : train::LeakageOptions {
  std::string config;
  std::vector<std::string> set;
  bool json = false;
};

std::string leakage_text(const train::Leakage& leakage, const LeakageFlags& flags) {
  const bool ids = leakage.row == "token";
  return fmt::format(
      "what leaves {} after its first {} segments: {} numbers for each {}\n"
      "weights                {}\n"
      "distance correlation   {:.4f}   0: nothing to do with its inputs; 1: as far apart as they "
      "are\n"
      "trained inverter       {:.1f} % of {} of {} held-out {}s; {:.1f} % by guessing\n"
      "An attacker with more data or a better inverter finds more: this is a lower bound.\n",
      leakage.owner, leakage.segments, leakage.width, leakage.row,
      flags.from.empty() ? "those that the run begins with" : flags.from,
      leakage.distance_correlation, 100 * leakage.inverter.found, ids ? "the ids" : "the variance",
      leakage.hidden, leakage.row, 100 * leakage.inverter.guessed);
}

nlohmann::json leakage_json(const train::Leakage& leakage) {
  return {{"owner", leakage.owner},
          {"segments", leakage.segments},
          {"row", leakage.row},
          {"width", leakage.width},
          {"distance_correlation", leakage.distance_correlation},
          {"inverter",
           {{"found", leakage.inverter.found},
            {"guessed", leakage.inverter.guessed},
            {"rows_known", leakage.known},
            {"rows_hidden", leakage.hidden}}}};
}

}  // namespace

void add_edge_leakage_command(CLI::App& edge) {
  auto flags = std::make_shared<LeakageFlags>();
  CLI::App* command = edge.add_subcommand(
      "leakage", "Measure how much of a client's inputs can be told from what leaves it.");
  command->footer(
      "Example:\n"
      "  cleave edge leakage examples/split/run.toml --probe docs\n"
      "\nReads no client's data: only --probe, which stands for what anybody could get. It is "
      "about "
      "the inputs, not the labels, which gradients reveal: docs/privacy.md.");
  command->add_option("config", flags->config, "A run.toml whose clients have layers")->required();
  command->add_option("--probe", flags->probe, "Public data of the kind that the client has")
      ->required();
  command->add_option("--owner", flags->owner, "Which client; default: the first");
  command->add_option("--from", flags->from,
                      "A checkpoint with the weights; default: those that the run begins with");
  command->add_option("--rows", flags->rows, "Tokens, patches or samples to look at, at most")
      ->capture_default_str();
  command->add_option("--set", flags->set, "Override a key (repeatable)")->allow_extra_args(false);
  command->add_flag("--json", flags->json, "One JSON object on stdout");
  command->callback([flags] {
    const train::Config config = train::load_config(flags->config, {.overrides = flags->set});
    const train::Leakage leakage = train::measure_leakage(config, *flags);
    write_file("", flags->json ? json_text(leakage_json(leakage)) : leakage_text(leakage, *flags));
  });
}

}  // namespace cleave::app
