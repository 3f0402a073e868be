#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "command.h"
#include "edge/policy_file.h"
#include "serve/epoch_part.h"
#include "serve/network.h"
#include "serve/owner_record.h"
#include "serve/survey_epoch.h"
#include "signals.h"
#include "streams.h"
#include <fmt/format.h>
#include <unistd.h>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/comm/launcher.h"
#include "cleave/comm/tcp/tcp_world.h"
#include "cleave/comm/together.h"
#include "cleave/train/loop/stop.h"
#include "cleave/train/step/trainer.h"

namespace cleave::app {
namespace {

struct JoinFlags : NetworkFlags {
  std::string invitation;
  std::string name;
  std::string memory;
  int threads = 0;
  double speed = 0;    ///< beside the server's; 0: measured
  double retry = 600;  ///< seconds
  std::string owner;
  std::string data;
  std::string policy;
  std::string out;
  bool overwrite = false;
  bool json = false;
};

constexpr std::chrono::milliseconds kCallAgain{500};

std::string name_of_machine() {
  char name[65] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "device";
}

/// What a device has to say in the end.
struct Part {
  int device = 0;
  std::optional<train::RunReport> report;  ///< of the last epoch that came to its end
  std::string failure;                     ///< of the last one that did not
  train::KeptState kept;                   ///< of the state, from one epoch to the next
};

void tell_done(const JoinFlags& flags, const Part& part, bool leaves) {
  if (!part.report || part.report->stopped_at_start)
    return complain("cleave join: left before the first step\n");
  const train::RunReport& report = *part.report;
  // A client of rounds has a whole model, and reports of itself alone.
  const auto device = std::min(static_cast<std::size_t>(part.device), report.devices.size() - 1);
  const comm::Sent sent = report.devices[device].sent;
  if (flags.json)
    return fmt::print("{{\"device\": {}, \"steps\": {}, \"weights\": \"{}\", \"left\": {}}}\n",
                      part.device, report.steps, report.weights, leaves);
  fmt::print("device {} {}: {} steps, {} sent per step\n", part.device,
             leaves ? "leaves" : "is done", report.steps, format_bytes(sent.total()));
}

/// Where an owner keeps its part of a run.
std::string out_of(const JoinFlags& flags) {
  if (!flags.out.empty()) return flags.out;
  const comm::Address address = comm::parse_address(flags.server);
  return (state_directory("owners") / fmt::format("{}_{}", address.host, address.port) /
          flags.owner)
      .string();
}

/// Before the first instruction of every epoch: the owner's own view of it. Throws UserError.
train::RunOptions options_of_owner(const JoinFlags& flags, const OwnerCheck& check,
                                   const train::Config& config, const engine::CompiledStep& step) {
  train::RunOptions options;
  if (flags.owner.empty()) return options;
  options.part = train::OwnerPart{.owner = flags.owner, .data = flags.data};
  if (flags.overwrite) options.start.existing = train::Existing::Overwrite;
  check_and_record(check, config, step, out_of(flags) + ".record");
  return options;
}

/// Runs an epoch. One that a loss ends is given up; the server plans the next.
void run_epoch(const JoinFlags& flags, const std::string& authority, comm::TcpWorld& device,
               const comm::Assignment& assignment, Part& part) {
  train::Config config = train::parse_config(assignment.run, "the server's config");
  const std::int64_t devices =
      flags.owner.empty() ? config.devices.count : std::ssize(assignment.peers);
  if (assignment.device < devices)
    complain("cleave join: device {} of {}\n", assignment.device, devices);
  const engine::CompiledStep step = train::compile_step(config);
  part.device = assignment.device;
  part.failure.clear();
  train::PlanMemory memory;
  try {
    device.run(program_hash(step), [&](comm::Communicator& everyone) {
      const OwnerCheck check{flags.owner, flags.policy, authority, assignment.signature};
      train::RunOptions mine = options_of_owner(flags, check, config, step);
      if (flags.owner.empty()) mine.memory = &memory;
      if (mine.part) config.train.out = out_of(flags);
      take_part(everyone, {config, mine, part.kept},
                [&](comm::Launcher& launcher, const train::RunOptions& options) {
                  train::RunObserver nobody;
                  part.report = train::run(config, options, nobody, launcher);
                });
    });
  } catch (const DeviceLost& error) {
    part.failure = error.what();
  } catch (const comm::PeerFailed& error) {
    part.failure = std::string(error.what()) + " and says why";
  }
  if (!part.failure.empty()) complain("cleave join: {}\n", part.failure);
  if (memory.planned_bytes > 0) complain("cleave join: {}\n", describe_memory(part.device, memory));
}

/// One that is not there at the end makes the server ask again, or do without.
void meet(comm::TcpWorld& device, const SurveyEpoch& survey, OwnRate& rate) {
  try {
    take_survey(device, survey, rate);
  } catch (const DeviceLost& error) {
    complain("cleave join: {}\n", error.what());
  }
}

/// From joining to the end of the run, or of this device's part in it. Throws ServerGone.
void stay(const JoinFlags& flags, const Contact& contact, const comm::Offer& offer, OwnRate& rate) {
  comm::TcpWorld device(contact.server(), offer, /*listen_host=*/"", train::stop_was_requested);
  Part part;
  for (;;) {
    const std::optional<comm::Assignment>& assignment = device.await_epoch([](int to_come) {
      if (to_come > 0) return complain("cleave join: waiting for {} more\n", to_come);
      complain("cleave join: waiting for a plan with this device\n");
    });
    if (!assignment) break;
    if (const std::optional<SurveyEpoch> survey = SurveyEpoch::in(assignment->run)) {
      meet(device, *survey, rate);
      continue;
    }
    run_epoch(flags, contact.authority(), device, *assignment, part);
  }
  device.say_bye();
  if (!device.failure().empty())
    throw DeviceLost(part.failure.empty() ? "the run has ended: " + device.failure()
                                          : part.failure);
  tell_done(flags, part, train::stop_was_requested());
}

/// What has to be done once, however often the server is called.
class Joining {
 public:
  explicit Joining(const JoinFlags& flags)
      : flags_(flags),
        offer_{.name = !flags.name.empty()    ? flags.name
                       : !flags.owner.empty() ? flags.owner
                                              : name_of_machine(),
               .memory = flags.memory.empty() ? 0 : parse_bytes(flags.memory),
               .threads = flags.threads,
               .owner = flags.owner},
        rate_(flags.speed),
        enrolled_(flags.invitation.empty()) {}

  /// Throws ServerGone.
  void call() {
    if (!enrolled_) enrol(flags_, flags_.invitation, offer_.name);
    enrolled_ = true;
    renew_if_due(flags_);
    stay(flags_, Contact(flags_), offer_, rate_);
  }

 private:
  const JoinFlags& flags_;
  comm::Offer offer_;
  OwnRate rate_;
  bool enrolled_;
};

/// Calls a server that is gone, or not there yet, again and again, as long as --retry says.
void join(const JoinFlags& flags) {
  require(flags.retry >= 0, "--retry ", flags.retry, " must not be negative");
  require(flags.speed >= 0, "--speed ", flags.speed, " must be more than 0");
  require(flags.owner.empty() == flags.data.empty(),
          "--owner and --data belong together: whose device this is, and where its data are");
  require(!flags.owner.empty() || (flags.policy.empty() && flags.out.empty() && !flags.overwrite),
          "--policy, --out and --overwrite are an owner's; say whose with --owner");
  if (!flags.policy.empty()) read_policy(flags.policy);
  using Clock = std::chrono::steady_clock;
  Joining joining(flags);
  bool was_there = false;
  bool told = false;
  for (Clock::time_point since = Clock::now();;) {
    try {
      return joining.call();
    } catch (const comm::ServerGone& error) {
      const Clock::time_point now = Clock::now();
      if (error.had_answered()) {
        was_there = true;
        told = false;
        since = now;
      }
      const std::chrono::duration<double> longest(flags.retry);
      const bool may_return = was_there || error.may_come();
      if (!may_return || now - since >= longest || train::stop_was_requested()) throw;
      if (!told)
        complain("cleave join: {}; trying to join{} for {}\n", error.what(),
                 was_there ? " again" : "", format_seconds(flags.retry));
      told = true;
    }
    std::this_thread::sleep_for(kCallAgain);
  }
}

}  // namespace

void add_join_command(CLI::App& app) {
  auto flags = std::make_shared<JoinFlags>();
  CLI::App* command = app.add_subcommand("join", "Offer this machine to a run as one device.");
  command->footer(
      "Examples:\n"
      "  cleave join server.example:4242 --invitation cleave1-…   the first time\n"
      "  cleave join server.example:4242 --memory 8GiB            from then on\n"
      "  cleave join server.example:4242 --owner clinic-a --data records --policy clinic-a.toml");
  add_network_flags(*command, *flags);
  command->add_option("--invitation", flags->invitation,
                      "What cleave serve invite printed; needed once for each server");
  command->add_option("--name", flags->name, "What the server calls it; default: the host's name");
  command->add_option("--memory", flags->memory,
                      "What it has to offer, as 8GiB; refused if its part of the run needs more");
  command->add_option("--threads", flags->threads,
                      "How many it has to offer; refused if devices.threads is more");
  command->add_option("--speed", flags->speed,
                      "How many times as fast as the server it is, as 0.5; default: measured");
  command
      ->add_option("--retry", flags->retry,
                   "Seconds for which it tries to join if the server is gone or not there yet")
      ->capture_default_str();
  command->add_option("--owner", flags->owner,
                      "Whose device it is, where [[edge.owner]] of the run lists owners");
  command->add_option("--data", flags->data, "The owner's data, which nobody else reads");
  command->add_option("--policy", flags->policy,
                      "What the owner allows, whatever the run's config says: docs/edge.md");
  command->add_option(
      "--out", flags->out,
      "Directory for the owner's part of the weights; default: one for each server, "
      "below ~/.local/state/cleave");
  command->add_flag("--overwrite", flags->overwrite, "Begin afresh even if --out exists");
  command->add_flag("--json", flags->json, "One JSON object on stdout");
  command->callback([flags] {
    stop_on_signals();
    join(*flags);
  });
}

}  // namespace cleave::app
