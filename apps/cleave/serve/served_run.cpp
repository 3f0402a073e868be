#include "serve/served_run.h"

#include <algorithm>
#include <limits>
#include <thread>

#include "edge/flow_table.h"
#include "serve/epoch_part.h"
#include "serve/network.h"
#include "serve/run_events.h"
#include "streams.h"
#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/comm/launcher.h"
#include "cleave/comm/tcp/identity.h"
#include "cleave/comm/together.h"
#include "cleave/train/loop/stop.h"
#include "cleave/train/step/trainer.h"

namespace cleave::app {
namespace {

using comm::Candidate;
using comm::MemberEvent;

constexpr const char* kStoppedWaiting =
    "stopped while it waited for devices; cleave serve --resume goes on";

constexpr std::chrono::milliseconds kLook{200};

// How often the first devices of a run are asked to measure their links, if one is lost meanwhile.
constexpr int kSurveys = 3;

// No device has this one.
constexpr std::int64_t kNoSeat = std::numeric_limits<std::int64_t>::min();

}  // namespace

ServedRun::ServedRun(const train::Config& config, const train::Config& asked,
                     const ServeFlags& flags, comm::Server& server, const ServerSelf& self)
    : config_(config),
      flags_(flags),
      server_(server),
      self_(self),
      plans_(config, asked),
      owned_(!owners_of_devices(config).empty()) {}

void ServedRun::run() {
  std::optional<OwnDevices> further;  // ends when the server has said that the run is over
  try {
    run_epochs(further);
  } catch (const std::exception& error) {
    server_.end(error.what());
    throw;
  }
  server_.end("");
}

void ServedRun::run_epochs(std::optional<OwnDevices>& further) {
  const std::string owner = owned_ ? owners_of_devices(config_)[0] : "";
  comm::TcpWorld device(self_.contact, {.name = "server", .key = server_.own_key(), .owner = owner},
                        server_.address().host);
  const auto count = static_cast<std::size_t>(owned_ ? std::ssize(owners_of_devices(config_))
                                                     : config_.devices.count);
  server_.await_ready(1, comm::Clock::duration::max(), {});  // so that this one is device 0
  further.emplace(config_, server_, self_.contact);
  if (config_.train.elastic && count > 1 && !owned_) foresee_a_loss();
  await_first_devices(device, count);
  if (!owned_) take_first_plan();
  for (;;) {
    const engine::CompiledStep step = train::compile_step(config_);
    const std::string program = program_hash(step);
    const bool signs = owned_ && !self_.key.empty();
    server_.begin(
        {.run = train::to_toml(config_),
         .program = program,
         .seats = devices_.seats(),
         .signature = signs ? comm::sign(self_.key, to_json(flow_table(config_, step))) : ""});
    if (train_epoch(device, program)) return;
  }
}

/// While nobody else is there yet.
void ServedRun::foresee_a_loss() const {
  if (const std::string lack = plans_.lack_after_a_loss(); !lack.empty())
    complain("cleave serve: should a device be lost, the others cannot go on without it: {}\n",
             lack);
}

/// Until as many are here as the run has, and what they are like is known.
void ServedRun::await_first_devices(comm::TcpWorld& device, std::size_t count) {
  // A plan that stays as it is asks nothing of the links.
  const bool wants_survey = count > 1 && !owned_ && (config_.train.elastic || plans_.are_open());
  for (int attempt = 0;; ++attempt) {
    devices_.members =
        server_.await_ready(count, comm::Clock::duration::max(), train::stop_was_requested);
    if (devices_.members.empty()) throw DeviceLost(kStoppedWaiting);
    if (owned_) devices_.members = arrange_by_owner(config_, devices_.members).value();
    devices_.members.resize(count);
    if (!wants_survey || plans_.known().knows(devices_.members) || attempt == kSurveys) break;
    const std::string failure =
        plans_.known().survey(server_, device, devices_.members, plans_.survey_epoch(), rate_);
    if (!failure.empty() && !config_.train.elastic) throw DeviceLost(failure);
  }
  for (const MemberEvent& event : server_.take_events())
    progress_.early.push_back(event_of(event, 0));
}

void ServedRun::take_first_plan() {
  const train::Config given = config_;
  config_ = plans_.first(devices_.members);
  const std::string text = fmt::format(
      "plan 1 for {}: {}", counted(config_.devices.count, "device"), train::describe(config_));
  progress_.early.push_back(event_now("plan", 0, text));
  if (plans_.are_open() || config_ != given) complain("cleave serve: {}\n", text);
}

/// True if the run is over.
bool ServedRun::train_epoch(comm::TcpWorld& device, const std::string& program) {
  device.await_epoch({});
  progress_.status.links = plans_.known().links(devices_.members);
  std::string failure;
  bool over = false;
  train::PlanMemory memory;
  try {
    device.run(program, [&](comm::Communicator& everyone) {
      train::RunOptions mine = epoch_options();
      if (!owned_) mine.memory = &memory;
      take_part(everyone, {config_, mine, kept_},
                [&](comm::Launcher& launcher, const train::RunOptions& options) {
                  if (!watch_) watch_ = begin_watch(config_, flags_, launcher);
                  ServedOutput output(config_, flags_.style(), server_, progress_,
                                      [this](const train::RunEvent& event) { note_event(event); });
                  if (watch_) output.show_on(*watch_);
                  const train::RunReport report =
                      train_as(config_, flags_, options, launcher, output);
                  over = !(options.pause && report.paused);
                });
    });
  } catch (const DeviceLost& error) {
    failure = error.what();
  } catch (const comm::PeerFailed& error) {
    failure = std::string(error.what()) + " and says why";
  }
  if (over && failure.empty()) return true;
  if (!config_.train.elastic) throw DeviceLost(failure);
  progress_.recovery = Recovery{.noticed = Recovery::Clock::now()};
  ++progress_.epochs;
  if (memory.planned_bytes > 0) complain("cleave serve: {}\n", describe_memory(0, memory));
  plan_again(device, failure);
  return false;
}

train::RunOptions ServedRun::epoch_options() {
  train::RunOptions options = options_of(flags_);
  if (owned_)
    options.part = train::OwnerPart{
        .owner = owners_of_devices(config_)[0], .data = "", .remembered = &announced_};
  // An owner of a split run who comes is one whom it waits for.
  const bool waits = owned_ && !config_.edge.averages();
  if (config_.train.elastic)
    options.pause = [this, waits] { return !waits && server_.has_newcomers(); };
  if (progress_.epochs == 0) return options;
  // The plan's own prediction must do: measuring takes longer than some steps.
  options.predict = false;
  options.start.existing = train::Existing::Resume;
  if (!progress_.saved.empty()) options.start.resume_from = progress_.saved;
  return options;
}

/// For those who are here now, once there are enough. `failure`: what ended the last epoch, if not
/// because somebody came or left.
void ServedRun::plan_again(comm::TcpWorld& device, const std::string& failure) {
  if (owned_)
    return config_.edge.averages() ? go_on_with_those_here(failure) : await_owners(failure);
  std::vector<std::int64_t> tried;
  for (;;) {
    std::vector<Candidate> candidates =
        server_.await_ready(1, options_of(flags_).patience, train::stop_was_requested);
    if (candidates.empty()) throw DeviceLost(kStoppedWaiting);
    log_events();
    // Whoever waited in vain for a device that is still there would do so again.
    if (tried.empty() && !failure.empty() && devices_.are_all_among(candidates))
      throw DeviceLost(failure);
    if (tried == seats_of(candidates)) {
      if (train::stop_was_requested()) throw DeviceLost(kStoppedWaiting);
      std::this_thread::sleep_for(kLook);
      continue;
    }
    // After a loss nothing is measured: a plan from what is known is there sooner.
    if (failure.empty() && tried.empty() && !plans_.known().knows(candidates)) {
      plans_.known().survey(server_, device, candidates, plans_.survey_epoch(), rate_);
      tried = {kNoSeat};
      continue;
    }
    const train::Regrouping plan = plans_.next(config_, candidates);
    tried = seats_of(candidates);
    if (plan.run) return take_plan(*plan.run, candidates);
    const std::string lack = fmt::format("{} cannot hold the model: {}",
                                         counted(std::ssize(candidates), "device"), plan.lack);
    note_event(event_now("lack", progress_.step, lack));
    if (!flags_.wait)
      throw DeviceLost(lack + "; start cleave serve --resume with more devices, or pass --wait");
    tell_lack("more devices: " + lack);
    complain("cleave serve: {}; waiting for more\n", lack);
  }
}

/// To those who ask.
void ServedRun::tell_lack(const std::string& lack) {
  progress_.status.lack = lack;
  server_.publish(progress_.status);
}

/// The plan stays, since what an owner has nobody else can bring.
void ServedRun::await_owners(const std::string& failure) {
  const auto patience = options_of(flags_).patience;
  std::vector<Candidate> candidates = server_.await_ready(1, patience, train::stop_was_requested);
  log_events();
  if (!failure.empty() && devices_.are_all_among(candidates)) throw DeviceLost(failure);
  if (const std::string missing = missing_owners(config_, candidates); !missing.empty()) {
    tell_lack(missing);
    complain("cleave serve: waiting for {}\n", missing);
  }
  const std::size_t count = owners_of_devices(config_).size();
  std::optional<std::vector<Candidate>> devices;
  while (!devices) {
    candidates = server_.await_ready(count, patience, train::stop_was_requested);
    if (candidates.empty())
      throw DeviceLost("stopped while it waited for owners; cleave serve --resume goes on");
    devices = arrange_by_owner(config_, candidates);
  }
  log_events();
  devices_.members = std::move(*devices);
}

/// What they had sent of the round in hand is in no sum: every round is saved, and begins anew.
void ServedRun::go_on_with_those_here(const std::string& failure) {
  const std::vector<Candidate> candidates =
      server_.await_ready(1, options_of(flags_).patience, train::stop_was_requested);
  if (candidates.empty())
    throw DeviceLost("stopped while it waited for clients; cleave serve --resume goes on");
  log_events();
  if (!failure.empty() && devices_.are_all_among(candidates)) throw DeviceLost(failure);
  declare_absences(candidates, progress_.step + 1, config_);
  devices_.members = present_owners(config_, candidates);
  const std::string missing = missing_owners(config_, candidates);
  note_plan(fmt::format("plan {} from round {}: {}", progress_.epochs + 1, progress_.step + 1,
                        missing.empty() ? "all clients are here" : "without " + missing));
}

/// For the first of `candidates`.
void ServedRun::take_plan(const train::PlannedRun& plan, std::vector<Candidate> candidates) {
  config_ = plan.config;
  devices_.go_on_with(std::move(candidates), config_.devices.count);
  server_.set_silence(longest_silence(plan.predicted.step_seconds));
  note_plan(fmt::format("plan {} for {}: {}", progress_.epochs + 1,
                        counted(config_.devices.count, "device"), train::describe(config_)));
}

void ServedRun::note_plan(const std::string& text) {
  if (progress_.recovery) progress_.recovery->planned = Recovery::Clock::now();
  complain("cleave serve: {}\n", text);
  note_event(event_now("plan", progress_.step, text));
}

void ServedRun::note_event(const train::RunEvent& event) {
  log_event(config_.train.out, event);
  if (watch_) watch_->on_event(fmt::format("after step {}: {}", event.step, event.text));
}

/// Once nobody is at work on the last plan any more.
void ServedRun::log_events() {
  if (progress_.recovery && !progress_.recovery->given_up)
    progress_.recovery->given_up = Recovery::Clock::now();
  for (const MemberEvent& event : server_.take_events()) {
    note_event(event_of(event, progress_.step));
    const bool ended_an_epoch = event.kind == MemberEvent::Kind::Lost;
    if (progress_.recovery && ended_an_epoch)
      progress_.recovery->noticed = std::min(progress_.recovery->noticed, event.at);
  }
}

}  // namespace cleave::app
