#include "command.h"
#include "edge/edge_leakage.h"
#include "edge/edge_simulate.h"

namespace cleave::app {

void add_edge_command(CLI::App& app) {
  CLI::App* edge = app.add_subcommand("edge", "Look ahead at training on clients.");
  edge->require_subcommand(1);
  edge->footer(
      "Example:\n"
      "  cleave edge simulate run.toml --set edge.clients=10000 --set edge.sample=100\n"
      "  cleave edge leakage run.toml --probe public.txt");
  add_edge_leakage_command(*edge);
  add_edge_simulate_command(*edge);
}

}  // namespace cleave::app
