#include <memory>

#include "command.h"
#include "serve/network.h"
#include "streams.h"
#include "train/train_run.h"
#include <fmt/format.h>
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/comm/launcher.h"
#include "cleave/comm/tcp/tcp_world.h"
#include "cleave/comm/together.h"
#include "cleave/train/step/trainer.h"

namespace cleave::app {
namespace {

struct JoinFlags : NetworkFlags {
  std::string invitation;
  std::string name;
  std::string memory;
  int threads = 0;
  bool json = false;
};

std::string name_of_machine() {
  char name[65] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "device";
}

void tell_done(const JoinFlags& flags, int device, const train::RunReport& report) {
  if (report.stopped_at_start) return complain("cleave join: stopped before the start\n");
  const comm::Sent sent = report.devices[static_cast<std::size_t>(device)].sent;
  if (flags.json)
    return fmt::print("{{\"device\": {}, \"steps\": {}, \"weights\": \"{}\"}}\n", device,
                      report.steps, report.weights);
  fmt::print("device {} is done: {} steps, {} sent per step\n", device, report.steps,
             format_bytes(sent.total()));
}

void join(const JoinFlags& flags) {
  const std::string name = flags.name.empty() ? name_of_machine() : flags.name;
  if (!flags.invitation.empty()) enrol(flags, flags.invitation, name);
  renew_if_due(flags);
  const Contact contact(flags);
  const comm::Offer offer{.name = name,
                          .memory = flags.memory.empty() ? 0 : parse_bytes(flags.memory),
                          .threads = flags.threads};
  comm::TcpWorld device(contact.server(), offer, /*listen_host=*/"", [](int to_come) {
    complain("cleave join: waiting for {} more\n", to_come);
  });
  const comm::Assignment& assignment = device.assignment();
  complain("cleave join: device {} of {}\n", assignment.device, assignment.peers.size());
  const train::Config config = train::parse_config(assignment.run, "the server's config");
  const std::string program = program_hash(train::compile_step(config));
  device.run(program, [&](comm::Communicator& world) {
    comm::ProcessLauncher launcher(world, comm::ProcessLauncher::Files::OfTheFirst);
    train::RunObserver nobody;
    const train::RunOptions options = shared_options(world, {});
    tell_done(flags, assignment.device, train::run(config, options, nobody, launcher));
  });
}

}  // namespace

void add_join_command(CLI::App& app) {
  auto flags = std::make_shared<JoinFlags>();
  CLI::App* command = app.add_subcommand("join", "Offer this machine to a run as one device.");
  command->footer(
      "Examples:\n"
      "  cleave join server.example:4242 --invitation cleave1-…   the first time\n"
      "  cleave join server.example:4242 --memory 8GiB            from then on");
  add_network_flags(*command, *flags);
  command->add_option("--invitation", flags->invitation,
                      "What cleave serve invite printed; needed once for each server");
  command->add_option("--name", flags->name, "What the server calls it; default: the host's name");
  command->add_option("--memory", flags->memory,
                      "What it has to offer, as 8GiB; refused if its part of the run needs more");
  command->add_option("--threads", flags->threads,
                      "How many it has to offer; refused if devices.threads is more");
  command->add_flag("--json", flags->json, "One JSON object on stdout");
  command->callback([flags] {
    stop_on_signals();
    try {
      join(*flags);
    } catch (const comm::PeerFailed& error) {
      throw DeviceLost(std::string(error.what()) + " and says why");
    }
  });
}

}  // namespace cleave::app
