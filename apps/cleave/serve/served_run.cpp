#include "serve/served_run.h"

#include <algorithm>
#include <limits>
#include <thread>

#include "edge/flow_table.h"
#include "serve/budgets.h"
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

// A device that shows no life for so many predicted steps is lost.
constexpr double kSilentSteps = 20;

constexpr std::chrono::milliseconds kLook{200};

// How often the first devices of a run are asked to measure their links, if one is lost meanwhile.
constexpr int kSurveys = 3;

// No device has this one.
constexpr std::int64_t kNoSeat = std::numeric_limits<std::int64_t>::min();

std::vector<std::int64_t> seats_of(const std::vector<Candidate>& devices) {
  std::vector<std::int64_t> seats;
  for (const Candidate& device : devices) seats.push_back(device.seat);
  return seats;
}

}  // namespace

/// What the run's user sees, and what those see who ask the server.
class ServedRun::Output final : public TrainOutput {
 public:
  Output(ServedRun& run, Style style)
      : TrainOutput(run.config_, style),
        run_(run),
        layout_(train::describe(run.config_)),
        links_(run.known_.links(run.devices_)) {}

  void on_predicted(double step_seconds) override {
    const std::chrono::duration<double> silence(kSilentSteps * step_seconds);
    run_.server_.set_silence(std::chrono::duration_cast<comm::Clock::duration>(silence));
  }

  void on_resumed(std::int64_t step, const std::string& from, const std::string& changed) override {
    TrainOutput::on_resumed(step, from, changed);
    if (run_.epochs_ == 0) return;
    const std::string text = fmt::format("goes on after step {} from {}", step, from);
    complain("cleave serve: {}\n", text);
    run_.note_event({"state", step, text});
  }

  void on_step(const train::StepReport& step) override {
    TrainOutput::on_step(step);
    run_.step_ = step.step;
    run_.server_.publish({.step = step.step,
                          .steps = run_.config_.train.steps,
                          .loss = step.loss,
                          .step_seconds = step.seconds,
                          .layout = layout_,
                          .links = links_});
    if (!run_.noticed_) return;
    const std::chrono::duration<double> since = Clock::now() - *run_.noticed_;
    complain("cleave serve: step {} is done, {} after the notice\n", step.step,
             format_seconds(since.count()));
    run_.noticed_.reset();
  }

  void on_saved(std::int64_t step, const std::string& directory, double pause) override {
    TrainOutput::on_saved(step, directory, pause);
    run_.saved_ = directory;
  }

 private:
  ServedRun& run_;
  std::string layout_;
  std::vector<comm::LinkStatus> links_;
};

ServedRun::ServedRun(const train::Config& config, const train::Config& asked,
                     const ServeFlags& flags, comm::Server& server, const ServerSelf& self)
    : first_(config),
      asked_(asked),
      config_(config),
      flags_(flags),
      server_(server),
      self_(self),
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
  if (!owned_ && train::needs_plan(asked_)) {
    plan_for_devices();
  } else if (!owned_) {
    hide_latency();
  }
  for (;;) {
    const engine::CompiledStep step = train::compile_step(config_);
    const std::string program = program_hash(step);
    const bool signs = owned_ && !self_.key.empty();
    std::vector<std::int64_t> seats = seats_of(devices_);
    std::ranges::copy(seats_of(givers_), std::back_inserter(seats));
    server_.begin(
        {.run = train::to_toml(config_),
         .program = program,
         .seats = std::move(seats),
         .signature = signs ? comm::sign(self_.key, to_json(flow_table(config_, step))) : ""});
    if (train_epoch(device, program)) return;
  }
}

SurveyEpoch ServedRun::survey_epoch() const {
  return {.threads = static_cast<int>(config_.devices.threads)};
}

/// Until as many are here as the run has, and what they are like is known.
void ServedRun::await_first_devices(comm::TcpWorld& device, std::size_t count) {
  // A plan that stays as it is asks nothing of the links.
  const bool wants_survey =
      count > 1 && !owned_ && (config_.train.elastic || train::needs_plan(asked_));
  for (int attempt = 0;; ++attempt) {
    devices_ = server_.await_ready(count, comm::Clock::duration::max(), {});
    if (owned_) devices_ = arrange_by_owner(config_, devices_).value();
    devices_.resize(count);
    if (!wants_survey || known_.knows(devices_) || attempt == kSurveys) break;
    const std::string failure = known_.survey(server_, device, devices_, survey_epoch(), rate_);
    if (!failure.empty() && !config_.train.elastic) throw DeviceLost(failure);
  }
  server_.take_events();
}

/// What "auto" stands for, for the devices that came: their memory, speed and links. The grid is
/// that of the config, whoever comes.
void ServedRun::plan_for_devices() {
  train::Config open = asked_;
  open.train.microbatch = config_.train.microbatch;
  open.numerics = config_.numerics;
  const std::vector<std::int64_t> budgets = budgets_of(asked_.devices.memory, devices_);
  comm::LocalLauncher here;
  const train::AutoPlan plan = train::plan_run(train::on_devices(open, budgets), here,
                                               known_.facts(devices_, survey_epoch().threads));
  train::require_fit(plan);
  config_ = plan.choice().config;
  complain("cleave serve: plan 1 for {}: {}\n", counted(config_.devices.count, "device"),
           train::describe(config_));
}

/// The layout is given; how far the devices look ahead depends on the links that they turned out to
/// have.
void ServedRun::hide_latency() {
  comm::LocalLauncher here;
  const train::Config given = config_;
  config_ = train::with_latency_hidden(given, here, known_.facts(devices_, survey_epoch().threads));
  if (config_ != given)
    complain("cleave serve: plan 1 for {}: {}\n", counted(config_.devices.count, "device"),
             train::describe(config_));
}

/// While nobody else is there yet: so that nothing needs to be measured when somebody is lost.
void ServedRun::foresee_a_loss() const {
  std::vector<Candidate> left(static_cast<std::size_t>(config_.devices.count) - 1);
  for (std::size_t i = 0; i < left.size(); ++i) left[i].seat = static_cast<std::int64_t>(i);
  comm::LocalLauncher here;
  const train::Regrouping plan =
      train::regroup(config_, budgets_of(first_.devices.memory, left), here);
  if (!plan.run)
    complain("cleave serve: should a device be lost, the others cannot go on without it: {}\n",
             plan.lack);
}

/// True if the run is over.
bool ServedRun::train_epoch(comm::TcpWorld& device, const std::string& program) {
  device.await_epoch({});
  std::string failure;
  bool over = false;
  try {
    device.run(program, [&](comm::Communicator& everyone) {
      take_part(everyone, {config_, epoch_options(), kept_},
                [&](comm::Launcher& launcher, const train::RunOptions& options) {
                  if (!watch_) watch_ = begin_watch(config_, flags_, launcher);
                  Output output(*this, flags_.style());
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
  noticed_ = Clock::now();
  ++epochs_;
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
  if (epochs_ == 0) return options;
  // The plan's own prediction must do: measuring takes longer than some steps.
  options.predict = false;
  options.start.existing = train::Existing::Resume;
  if (!saved_.empty()) options.start.resume_from = saved_;
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
    if (candidates.empty())
      throw DeviceLost("stopped while it waited for devices; cleave serve --resume goes on");
    log_events();
    // Whoever waited in vain for a device that is still there would do so again.
    if (tried.empty() && !failure.empty() && all_are_among(candidates)) throw DeviceLost(failure);
    if (tried == seats_of(candidates)) {
      if (train::stop_was_requested())
        throw DeviceLost("stopped while it waited for devices; cleave serve --resume goes on");
      std::this_thread::sleep_for(kLook);
      continue;
    }
    // After a loss nothing is measured: a plan from what is known is there sooner.
    if (failure.empty() && tried.empty() && !known_.knows(candidates)) {
      known_.survey(server_, device, candidates, survey_epoch(), rate_);
      tried = {kNoSeat};
      continue;
    }
    const train::Regrouping plan = regroup(candidates);
    tried = seats_of(candidates);
    if (plan.run) return take_plan(*plan.run, candidates);
    const std::string lack = fmt::format("{} cannot hold the model: {}",
                                         counted(std::ssize(candidates), "device"), plan.lack);
    note_event({"lack", step_, lack});
    if (!flags_.wait)
      throw DeviceLost(lack + "; start cleave serve --resume with more devices, or pass --wait");
    complain("cleave serve: {}; waiting for more\n", lack);
  }
}

/// Puts the candidates into the order in which the plan has them.
train::Regrouping ServedRun::regroup(std::vector<Candidate>& candidates) const {
  const std::vector<std::int64_t> budgets = budgets_of(first_.devices.memory, candidates);
  comm::LocalLauncher here;
  train::Config wanted = config_;
  wanted.train.copies = first_.train.copies;
  return train::regroup(wanted, budgets, here, known_.facts(candidates, survey_epoch().threads));
}

/// The plan stays, since what an owner has nobody else can bring.
void ServedRun::await_owners(const std::string& failure) {
  const auto patience = options_of(flags_).patience;
  std::vector<Candidate> candidates = server_.await_ready(1, patience, train::stop_was_requested);
  log_events();
  if (!failure.empty() && all_are_among(candidates)) throw DeviceLost(failure);
  if (const std::string missing = missing_owners(config_, candidates); !missing.empty())
    complain("cleave serve: waiting for {}\n", missing);
  const std::size_t count = owners_of_devices(config_).size();
  std::optional<std::vector<Candidate>> devices;
  while (!devices) {
    candidates = server_.await_ready(count, patience, train::stop_was_requested);
    if (candidates.empty())
      throw DeviceLost("stopped while it waited for owners; cleave serve --resume goes on");
    devices = arrange_by_owner(config_, candidates);
  }
  log_events();
  devices_ = std::move(*devices);
}

/// What they had sent of the round in hand is in no sum: every round is saved, and begins anew.
void ServedRun::go_on_with_those_here(const std::string& failure) {
  const std::vector<Candidate> candidates =
      server_.await_ready(1, options_of(flags_).patience, train::stop_was_requested);
  if (candidates.empty())
    throw DeviceLost("stopped while it waited for clients; cleave serve --resume goes on");
  log_events();
  if (!failure.empty() && all_are_among(candidates)) throw DeviceLost(failure);
  declare_absences(candidates, step_ + 1, config_);
  devices_ = present_owners(config_, candidates);
  const std::string missing = missing_owners(config_, candidates);
  const std::string text =
      fmt::format("plan {} from round {}: {}", epochs_ + 1, step_ + 1,
                  missing.empty() ? "all clients are here" : "without " + missing);
  complain("cleave serve: {}\n", text);
  note_event({"plan", step_, text});
}

/// For the first of `candidates`. Those of the others who took part before may have state that is
/// needed.
void ServedRun::take_plan(const train::PlannedRun& plan, std::vector<Candidate> candidates) {
  config_ = plan.config;
  std::vector<std::int64_t> before = seats_of(devices_);
  std::ranges::copy(seats_of(givers_), std::back_inserter(before));
  const auto others = candidates.begin() + config_.devices.count;
  givers_.assign(others, candidates.end());
  std::erase_if(givers_, [&](const Candidate& candidate) {
    return std::ranges::find(before, candidate.seat) == before.end();
  });
  candidates.erase(others, candidates.end());
  devices_ = std::move(candidates);
  const std::chrono::duration<double> silence(kSilentSteps * plan.predicted.step_seconds);
  server_.set_silence(std::chrono::duration_cast<comm::Clock::duration>(silence));
  const std::string text =
      fmt::format("plan {} for {}: {}", epochs_ + 1, counted(config_.devices.count, "device"),
                  train::describe(config_));
  complain("cleave serve: {}\n", text);
  note_event({"plan", step_, text});
}

void ServedRun::note_event(const train::RunEvent& event) {
  log_event(config_.train.out, event);
  if (watch_) watch_->on_event(fmt::format("after step {}: {}", event.step, event.text));
}

/// Whether every device of the last epoch could take part in the next.
bool ServedRun::all_are_among(const std::vector<Candidate>& candidates) const {
  return std::ranges::all_of(devices_, [&](const Candidate& device) {
    return std::ranges::find(candidates, device.seat, &Candidate::seat) != candidates.end();
  });
}

void ServedRun::log_events() {
  for (const MemberEvent& event : server_.take_events()) {
    note_event({to_string(event.kind), step_, event.text});
    const bool ended_an_epoch = event.kind == MemberEvent::Kind::Lost;
    if (noticed_ && ended_an_epoch) noticed_ = std::min(*noticed_, event.at);
  }
}

}  // namespace cleave::app
