#include <algorithm>
#include <memory>
#include <optional>
#include <variant>

#include "command.h"
#include "serve/own_devices.h"
#include "serve/registry_commands.h"
#include "serve/served_run.h"
#include "signals.h"
#include "streams.h"
#include "train/train_run.h"
#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/comm/launcher.h"
#include "cleave/comm/tcp/server.h"
#include "cleave/ops/instruction_set.h"
#include "cleave/train/step/trainer.h"
#include "cleave/train/tune/auto_plan.h"

namespace cleave::app {
namespace {

/// What owners bring with them and keep, a server can neither give nor take.
void check_owners(const train::Config& config, const ServeFlags& flags) {
  const train::EdgeConfig& edge = config.edge;
  if (edge.owners.empty()) return;
  require(!edge.central,
          "edge.central plays all owners on one device, and cleave serve lets them "
          "join; use cleave train, or leave it out");
  require(edge.is_split() || config.devices.count == 1, "the layout has ", config.devices.count,
          " devices, and clients that average have one each; leave out [parallel] and "
          "devices.count");
  if (!edge.is_split()) return;
  require(edge.has_own_data(),
          "the clients of [edge] share data.path, and owners that join bring "
          "data of their own; give each [[edge.owner]] its data");
  require(config.from.empty() && config.adapters.empty() && flags.init_from.empty(),
          "model.from, lora.from and --init-from are files of the server, and owners keep their "
          "layers to themselves; begin with fresh weights");
  require(
      !edge.in_order || !std::holds_alternative<std::string>(config.data.validation),
      "data.validation is a set of the server's, and where clients take turns at its layers "
      "nobody has the whole model to evaluate it with; leave it out, or hold out a share of the "
      "clients' data");
  require(config.parallel.zero == 0,
          "parallel.zero shares what clients have among them, and owners keep it; leave it out");
}

/// Everything that changes a bit is decided here, and so are axes and stages where nothing is
/// "auto". Else they are planned once the devices have come.
struct Decision {
  train::Config asked;
  train::Config config;  ///< as for devices that are all like this one
};

Decision decide(const ServeFlags& flags) {
  TrainFlags over_tcp = flags;
  over_tcp.set.push_back("devices.transport=tcp");
  comm::LocalLauncher here;
  train::Config config = load_run(over_tcp, here);
  require(!config.devices.emulate,
          "devices.emulate is for cleave train; devices that join a server compute");
  check_owners(config, flags);
  require(!config.train.elastic || config.devices.kind.size() < 2,
          "devices.kind is a list, and train.elastic lets the devices of the run change; give one "
          "kind for all");
  require(config.train.copies == 0 || config.devices.kind.empty() ||
              config.devices.kind == std::vector<std::string>{"cpu"},
          "train.copies is ", config.train.copies, ", and the state of devices of kind \"",
          config.devices.kind.front(), "\" is not copied; leave it out, or use kind \"cpu\"");
  require(config.train.copies == 0 || owners_of_devices(config).empty(), "train.copies is ",
          config.train.copies,
          ", and what an owner's device holds stays with it; leave train.copies out");
  require(config.train.copies == 0 || !config.edge.averages(), "train.copies is ",
          config.train.copies, ", and within a round of clients no state is copied; leave it out");
  // A client that is lost in a round costs that round and none before it.
  if (config.edge.averages() && train::owners_are_apart(config)) config.train.checkpoint_every = 1;
  // Whoever joins may have another processor.
  config.numerics.exact = config.numerics.exact.value_or(ops::instruction_set().fused);
  return {config, needs_plan(config) ? planned(config, flags, here) : config};
}

/// The server's own device reaches it by the shortest way.
comm::Address own_address(const comm::Server& server) {
  const comm::Address address = server.address();
  if (address.host == "0.0.0.0") return {"127.0.0.1", address.port};
  if (address.host == "::") return {"::1", address.port};
  return address;
}

/// How many devices join that are not in the server's own process.
std::int64_t awaited_by(const train::Config& config) {
  const std::vector<std::string> owners = owners_of_devices(config);
  if (owners.empty()) return config.devices.count - 1;
  return std::ssize(owners) - std::ranges::count(owners, owners[0]);
}

void serve(const ServeFlags& flags) {
  options_of(flags);
  const auto [asked, config] = decide(flags);
  if (flags.print_config) return fmt::print("{}", train::to_toml(config));
  const engine::CompiledStep step = train::compile_step(config);
  std::vector<std::int64_t> needs;
  for (int device = 0; device < step.devices(); ++device) needs.push_back(step.planned_on(device));
  // What each has to hold follows from who comes.
  if (needs_plan(asked) && owners_of_devices(config).empty()) std::ranges::fill(needs, 0);
  // Where updates are averaged all clients are planned alike: for a whole model, or for the layers
  // that are theirs.
  needs.resize(std::max(needs.size(), owners_of_devices(config).size()), needs.back());

  std::optional<comm::Registry> registry;
  std::optional<comm::Tls> tls;
  if (!flags.insecure) registry.emplace(registry_directory(flags.state));
  if (registry) tls.emplace(registry->authority());
  comm::Server server(
      {.listen = comm::parse_address(flags.listen),
       .registry = registry ? &*registry : nullptr,
       .needs = needs,
       .threads = static_cast<int>(config.devices.threads),
       .owners = owners_of_devices(config),
       .latecomers = config.train.elastic ? comm::Latecomers::Welcome : comm::Latecomers::Refused,
       .log = [](const std::string& line) { complain("cleave serve: {}\n", line); }});
  complain("cleave serve: listening on {}{}; {} to join\n", comm::to_string(server.address()),
           flags.insecure ? ", without TLS" : "", awaited_by(config));
  ServerSelf self{.contact = {.address = own_address(server)}};
  if (registry) {
    self.contact.tls = &*tls;
    self.contact.fingerprint = registry->fingerprint();
    self.key = registry->authority().key;
  }
  ServedRun(config, asked, flags, server, self).run();
}

}  // namespace

void add_serve_command(CLI::App& app) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = app.add_subcommand(
      "serve", "Train on devices that join over a network; this one is device 0.");
  command->footer(
      "Examples:\n"
      "  cleave serve run.toml --listen 0.0.0.0:4242      on the server\n"
      "  cleave serve invite                              there too, once for each one\n"
      "  cleave join server.example:4242 --invitation …   on each device\n"
      "  cleave serve run.toml --insecure & cleave join 127.0.0.1:4242 --insecure");
  add_train_flags(*command, *flags);
  command->get_option("config")->required(false);
  command->add_option("--listen", flags->listen, "HOST:PORT; port 0: any")->capture_default_str();
  command->add_option("--state", flags->state, kStateHelp);
  command->add_flag("--insecure", flags->insecure,
                    "Without TLS, on the loopback interface only; devices must say so too");
  command->add_flag("--wait", flags->wait,
                    "Wait for devices if those that are left cannot hold the model, instead of "
                    "ending with code 4");
  add_registry_commands(*command);
  command->callback([flags, command] {
    if (!command->get_subcommands().empty()) return;
    require(!flags->config.empty(), "cleave serve needs a config; see cleave serve --help");
    stop_on_usr1();
    serve(*flags);
  });
}

}  // namespace cleave::app
