#include "cleave/train/loop/run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <variant>

#include "cleave/base/hash.h"
#include "cleave/base/process_memory.h"
#include "cleave/checkpoint/directory.h"
#include "cleave/comm/together.h"
#include "cleave/engine/run/device_kinds.h"
#include "cleave/train/keep/moving.h"
#include "cleave/train/keep/state_copies.h"
#include "cleave/train/loop/emulated_run.h"
#include "cleave/train/loop/fetch.h"
#include "cleave/train/loop/forecast.h"
#include "cleave/train/loop/state_in_memory.h"
#include "cleave/train/save/adapters.h"
#include "cleave/train/save/background_saver.h"
#include "cleave/train/save/own_part.h"
#include "cleave/train/save/saving.h"
#include "cleave/train/step/numerics.h"
#include "cleave/train/step/owner_flow.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

RunReport stopped_at_start(const Start& start) {
  RunReport report;
  report.stopped = report.stopped_at_start = true;
  report.paused = !stop_was_requested();
  report.checkpoint = start.resume_from.string();
  if (!report.checkpoint.empty())
    report.steps = checkpoint::CheckpointReader(start.resume_from).state().step;
  return report;
}

/// The same with paths of this process, for what it reads of the first one's files: not the data of
/// owners, who have their own.
Config with_fetched_data(Config config, const std::optional<OwnerPart>& part,
                         comm::Communicator& processes) {
  if (part) config = with_own_data(std::move(config), *part);
  for (data::DataPath& path : config.data.path) {
    if (!part) path.path = fetch(processes, path.path, fetch_cache());
  }
  std::string& tokenizer = config.data.tokenizer;
  if (!tokenizer.empty() && tokenizer != "bytes") {
    tokenizer = fetch(processes, tokenizer, fetch_cache());
  }
  if (!config.adapters.empty()) config.adapters = fetch(processes, config.adapters, fetch_cache());
  if (auto* path = std::get_if<std::string>(&config.data.validation))
    *path = fetch(processes, *path, fetch_cache());
  return config;
}

/// Of rounds whose clients are processes of their own: the server's files say where it begins.
Start start_of_rounds(const Config& config, const StartOptions& options,
                      const checkpoint::CheckpointLayout& layout, comm::Communicator& processes) {
  comm::LocalLauncher here;
  Start start;
  comm::together(processes, [&] {
    if (processes.rank() == 0) start = prepare_start(config, options, layout, here.processes());
  });
  double finished = start.finished ? 1 : 0;
  processes.combine({&finished, 1}, comm::Combine::Max);
  start.finished = finished > 0;
  return start;
}

Start start_of(const Config& config, const StartOptions& options,
               const checkpoint::CheckpointLayout& layout, comm::Launcher& launcher) {
  Start start = prepare_start(config, options, layout, launcher.processes());
  if (launcher.shares_files()) return start;
  comm::Communicator& processes = launcher.processes();
  if (!start.resume_from.empty())
    start.resume_from = fetch_checkpoint(processes, start.resume_from.string(), fetch_cache());
  if (!start.init_from.empty())
    start.init_from = fetch(processes, start.init_from.string(), fetch_cache());
  return start;
}

/// Everything that the devices of a run share.
struct Job {
  const Config& config;
  const RunOptions& options;
  const data::Data& data;
  const std::optional<ClientData>& clients;  ///< whose data these are, if anybody's
  const engine::CompiledStep& compiled;
  const checkpoint::CheckpointLayout& layout;
  const std::optional<MovedState> moved;  ///< what it begins with, if that is in memory
  const Start start;
  double at_once;  ///< how many devices can compute at the same time
  RunObserver& observer;
  bool own_process;   ///< each device has one, as MPI ranks do
  bool shares_files;  ///< all devices see train.out
  bool keeps_part;    ///< of an owner: it saves what is on its device, and nobody else does
  RoundExchange* exchange = nullptr;  ///< where clients that average are processes of their own
  std::string data_digest;
};

/// Whether the state outlasts the run in its devices' memory. Never where owners are on machines of
/// their own: what one has would lie with another.
bool keeps_state(const RunOptions& options) {
  return options.kept != nullptr && !options.part;
}

/// One device's part of a run.
class DeviceRun {
 public:
  DeviceRun(const Job& job, comm::Communicator& world)
      : job_(job),
        world_(world),
        index_(world.rank()),
        trainer_(job.config, {&job.data, job.clients ? &*job.clients : nullptr, job.exchange},
                 job.compiled, world.rank(), world),
        saver_(save_point()) {
    world.set_patience(job.options.patience);
    if (keeps_state(job.options) && can_keep_state(job.compiled)) {
      copies_.emplace(trainer_.device(), job.compiled, job.layout, world);
      trainer_.set_watch(&*copies_);
    }
    if (!job.config.edge.averages()) return;
    const RoundBytes bytes = round_bytes(job.config, job.compiled.model);
    report_.averaged = RunReport::Averaged{
        .clients = job.config.edge.client_count(), .up_bytes = bytes.up, .down_bytes = bytes.down};
  }

  RunReport run() {
    try {
      RunReport report = train();
      if (report.paused) leave_state();
      return report;
    } catch (...) {
      leave_state();
      throw;
    }
  }

 private:
  RunReport train() {
    if (!job_.start.finished && job_.options.predict) {
      predict();
      agree_on_timelines();
      if (agree_to_stop(world_)) return stopped_at_start(job_.start);
    }
    begin();
    trainer_.share_start();
    if (job_.start.finished) {
      report_.finished_before = true;
      report_.checkpoint = job_.start.resume_from.string();
      return finish();
    }
    const TrainConfig& train = job_.config.train;
    bool stop = false;
    while (trainer_.steps_done() < train.steps && !stop) {
      const std::int64_t heap = report_.losses.empty() ? heap_bytes() : 0;
      if (copies_) copies_->begin_step(trainer_.steps_done());
      if (copies_ && job_.config.edge.averages()) copies_->lose_track();
      StepReport step = trainer_.step(stop_was_requested() || pause_is_due());
      if (copies_) copies_->end_step(trainer_.steps_done());
      if (report_.losses.empty()) library_heap_ += heap_bytes() - heap;
      stop = step.stop;
      const bool last = stop || step.step == train.steps;
      step.evaluates =
          (due(train.eval_every, step.step) || last) && trainer_.evaluated_sequences() > 0;
      note(step);
      if (due(timeline_every_, step.step)) tell_timeline();
      note_saved(saver_.advance());
      if (step.evaluates) evaluate();
      if (due(train.checkpoint_every, step.step) && !last) save_and_go_on();
    }
    note_saved(saver_.advance(BackgroundSaver::Wait::UntilSaved));
    if (!hands_over()) save();
    report_.stopped = trainer_.steps_done() < train.steps;
    report_.paused = report_.stopped && !stop_was_requested();
    return finish();
  }

  /// For the next plan.
  void leave_state() {
    if (copies_) job_.options.kept->keep(trainer_.device().shared_arena(), copies_->versions());
  }

  /// Whether the next plan will find the state in memory, so that it need not be saved: nobody
  /// leaves, or no more than there are copies, and all have room for it beside a plan like this.
  bool hands_over() {
    if (!copies_ || trainer_.steps_done() >= job_.config.train.steps) return false;
    const auto& budgets = job_.compiled.budgets;
    const std::int64_t needed = job_.compiled.planned_on(index_) + copies_->own_bytes();
    const bool hinders =
        (stop_was_requested() && index_ == 0) || (!budgets.empty() && needed > budgets[index_]);
    std::array<double, 2> answers = {stop_was_requested() ? 1.0 : 0.0, hinders ? 1.0 : 0.0};
    world_.combine(answers, comm::Combine::Sum);
    const auto [leaving, hindered] = answers;
    if (hindered > 0 || leaving > job_.compiled.copies) return false;
    if (leaving > 0) copies_->copy_now(trainer_.steps_done());
    return true;
  }

  bool pause_is_due() const { return job_.options.pause && job_.options.pause(); }

  static bool due(std::int64_t every, std::int64_t step) { return every > 0 && step % every == 0; }

  /// Once, before the first step, and then frozen.
  void predict() {
    const std::int64_t heap = heap_bytes();
    const plan::Costs costs = trainer_.profile(job_.at_once);
    library_heap_ = heap_bytes() - heap;
    report_.predicted =
        predicted_step(job_.compiled, costs, {.at_once = job_.at_once / job_.compiled.mesh.tensor});
    report_.predicted_step_seconds = report_.predicted->summary.makespan;
    if (index_ == 0) job_.observer.on_predicted(*report_.predicted_step_seconds);
  }

  /// All devices take part in a timeline, so all have to know when: about once a second, if device
  /// 0 is watched.
  void agree_on_timelines() {
    const double seconds = std::max(*report_.predicted_step_seconds, 1e-3);
    double every = index_ == 0 && job_.options.watched ? std::ceil(1 / seconds) : 0;
    world_.combine({&every, 1}, comm::Combine::Max);
    timeline_every_ = static_cast<std::int64_t>(every);
    if (index_ == 0) job_.observer.on_predicted(*report_.predicted);
  }

  void tell_timeline() {
    const TracedStep step = measured_step(job_.compiled, trainer_.device().executor(), world_);
    if (index_ == 0) job_.observer.on_timeline(trainer_.steps_done(), step);
  }

  void begin() {
    const Start& start = job_.start;
    if (job_.moved) {
      take_state(*job_.moved);
    } else if (start.resume_from.empty()) {
      begin_afresh();
    } else {
      const checkpoint::CheckpointReader reader(start.resume_from);
      load(reader, job_.layout, trainer_.device());
      trainer_.continue_after(reader.state().step);
      if (index_ == 0)
        job_.observer.on_resumed(reader.state().step, start.resume_from.string(), start.changed);
    }
    if (!copies_) return;
    // What was kept for this plan goes when all that it was kept for is here twice.
    copies_->copy_now(trainer_.steps_done());
    world_.barrier().wait();
    job_.options.kept->forget();
  }

  void begin_afresh() {
    trainer_.initialise();
    if (!job_.start.init_from.empty()) {
      const checkpoint::CheckpointReader reader(job_.start.init_from,
                                                checkpoint::Load::WeightsOnly);
      load(reader, layout_in(reader, job_.layout), trainer_.device());
    }
    load_adapters(job_.config, job_.layout, trainer_.device());
  }

  void take_state(const MovedState& moved) {
    if (has_frozen(job_.compiled.model)) begin_afresh();
    comm::Communicator& everyone =
        job_.options.everyone != nullptr ? *job_.options.everyone : world_;
    move_state(everyone, moved, *job_.options.kept,
               image_of(trainer_.device(), job_.layout, Whose::OwnAndTied));
    trainer_.device().refresh_values();
    trainer_.continue_after(moved.step);
    if (index_ == 0) job_.observer.on_resumed(moved.step, "the memory of its devices", "");
  }

  void note(const StepReport& step) {
    if (!report_.first_loss) report_.first_loss = step.loss;
    if (report_.losses.size() == 2 * kKeptLosses)
      report_.losses.erase(report_.losses.begin(), report_.losses.begin() + kKeptLosses);
    report_.losses.push_back(step.loss);
    const engine::Executor& executor = trainer_.device().executor();
    if (report_.averaged) {
      ++report_.averaged->rounds;
      report_.averaged->participants += step.participants;
      report_.averaged->local_steps += step.local_steps;
      report_.averaged->absent += step.absent;
    }
    times_.note(step.seconds / static_cast<double>(std::max<std::int64_t>(1, step.local_steps)),
                executor.spans(), executor.exchanges(), executor.held_up());
    if (index_ == 0) job_.observer.on_step(step);
  }

  void evaluate() {
    const std::optional<Evaluation> evaluation = trainer_.evaluate();
    if (!evaluation) return;
    report_.validation_loss = evaluation->loss;
    report_.accuracy = evaluation->accuracy;
    if (index_ == 0)
      job_.observer.on_evaluated(trainer_.steps_done(), *evaluation,
                                 trainer_.evaluated_sequences());
  }

  SavePoint save_point() {
    return {.config = &job_.config,
            .layout = &job_.layout,
            .device = &trainer_.device(),
            .world = &world_,
            .shares_files = job_.shares_files,
            .data = job_.data_digest};
  }

  void save() {
    if (job_.exchange != nullptr && !job_.exchange->is_server()) return;
    const Clock::time_point start = Clock::now();
    if (job_.options.part && job_.exchange == nullptr) {
      save_part(save_point(), job_.keeps_part, trainer_.steps_done());
    } else {
      train::save(save_point(), trainer_.steps_done());
    }
    const std::chrono::duration<double> pause = Clock::now() - start;
    note_saved(BackgroundSaver::Saved{trainer_.steps_done(), pause.count()});
  }

  void save_and_go_on() {
    // Threads that write do not talk to other devices, so what has to be sent is saved at once.
    if (!BackgroundSaver::has_room(job_.compiled) || !job_.shares_files || job_.exchange != nullptr)
      return save();
    // Should the one before not be done yet, disks are slower than training: that pause is its own.
    note_saved(saver_.advance(BackgroundSaver::Wait::UntilSaved));
    saver_.begin(trainer_.steps_done());
  }

  void note_saved(const std::optional<BackgroundSaver::Saved>& saved) {
    if (!saved || index_ != 0) return;
    report_.checkpoint =
        checkpoint::checkpoint_path(fs::path(job_.config.train.out) / "checkpoints", saved->step)
            .string();
    job_.observer.on_saved(saved->step, report_.checkpoint, saved->pause);
  }

  /// Puts the numbers of all devices together; the same report on each.
  RunReport finish() {
    report_.steps = trainer_.steps_done();
    report_.epochs = epochs();
    if (report_.averaged) {
      double sent = static_cast<double>(trainer_.client_bytes());
      world_.combine({&sent, 1}, comm::Combine::Sum);
      report_.averaged->sent_bytes = static_cast<std::int64_t>(sent);
      report_.averaged->epsilon = privacy_spent(job_.config, report_.steps);
    }
    if (report_.losses.size() > kKeptLosses)
      report_.losses.erase(report_.losses.begin(), report_.losses.end() - kKeptLosses);
    report_.step_seconds = times_.seconds();
    const double tokens = static_cast<double>(job_.config.train.batch * job_.config.train.sequence);
    if (report_.step_seconds > 0) report_.tokens_per_second = tokens / report_.step_seconds;
    report_.devices = gather_reports(report_of_device(), index_, job_.compiled.devices(), world_);
    report_.bubble = bubble_of(report_.devices);
    report_.idle = idle_of(report_.devices, report_.step_seconds);
    if (job_.options.trace) {
      report_.measured = measured_step(job_.compiled, trainer_.device().executor(), world_);
    }
    gather_weights();
    return std::move(report_);
  }

  /// Through the training data; with averaging, by all clients of this run together.
  double epochs() const {
    const data::Dataset& training = job_.data.training();
    if (!report_.averaged) return training.epochs(report_.steps);
    return static_cast<double>(report_.averaged->local_steps * job_.config.train.batch) /
           static_cast<double>(training.windows());
  }

  DeviceReport report_of_device() {
    const auto& budgets = job_.compiled.budgets;
    return {.peak_bytes = trainer_.device().arena().peak(),
            .planned_bytes = job_.compiled.planned_on(index_),
            .outside_bytes = trainer_.device().outside().peak(),
            .planned_outside_bytes = job_.compiled.outside_on(index_),
            .budget_bytes = budgets.empty() ? 0 : budgets[index_],
            .library_bytes = library_bytes(),
            .resident_bytes = job_.own_process ? peak_resident_bytes() : 0,
            .parameters = trainer_.device().parameter_count(),
            .sent = trainer_.sent() - comm::Sent{.message = copies_ ? copies_->sent() : 0},
            .planned_sent = job_.compiled.traffic[index_],
            .compute = times_.compute(),
            .extent = times_.extent(),
            .busy = times_.busy(),
            .wait = times_.wait(),
            .reduce = times_.reduce(),
            .reduce_hidden = times_.reduce_hidden(),
            .tensor = times_.tensor(),
            .tensor_hidden = times_.tensor_hidden(),
            .moves = times_.moves(),
            .moves_hidden = times_.moves_hidden()};
  }

  /// Our own code allocates nothing inside a step, so what the profile and the first step left on
  /// the heap is the libraries'. Devices that share a process share this too.
  std::int64_t library_bytes() const {
    const std::int64_t bytes = job_.compiled.library_bytes + library_heap_;
    return job_.own_process ? bytes : bytes / job_.compiled.devices();
  }

  /// Sums by tensor, exchanged as two halves of 32 bits, whose sums over devices f64 holds exactly.
  void gather_weights() {
    const auto& names = job_.compiled.tensor_names;
    std::vector<double> halves(2 * names.size());
    for (const auto& [name, hash] : trainer_.device().weight_hashes()) {
      if (!trainer_.device().is_owner()) break;
      const auto at =
          static_cast<std::size_t>(std::ranges::lower_bound(names, name) - names.begin());
      halves[2 * at] += static_cast<double>(hash >> 32);
      halves[2 * at + 1] += static_cast<double>(hash & 0xffffffff);
    }
    world_.combine(halves, comm::Combine::Sum);
    std::vector<std::pair<std::string, std::uint64_t>> hashes;
    for (std::size_t i = 0; i < names.size(); ++i) {
      hashes.emplace_back(names[i], (static_cast<std::uint64_t>(halves[2 * i]) << 32) +
                                        static_cast<std::uint64_t>(halves[2 * i + 1]));
    }
    report_.weights = engine::combine_hashes(hashes);
  }

  const Job& job_;
  comm::Communicator& world_;
  int index_;
  Trainer trainer_;
  std::optional<StateCopies> copies_;  ///< nothing where a run cannot outlive a loss
  BackgroundSaver saver_;              ///< ends before the memory that it reads
  RunReport report_;
  StepTimes times_;
  std::int64_t library_heap_ = 0;    ///< growth of the process's heap
  std::int64_t timeline_every_ = 0;  ///< steps; 0: never
};

/// Runs `work`; if it throws, nobody can finish what was being saved.
void or_remove_drafts(const Config& config, comm::Communicator& world,
                      const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    if (world.rank() == 0) checkpoint::remove_drafts(fs::path(config.train.out) / "checkpoints");
    throw;
  }
}

}  // namespace

RunReport run(const Config& given, const RunOptions& options, RunObserver& observer,
              comm::Launcher& launcher) {
  comm::Communicator& world = launcher.processes();
  if (agree_to_stop(world)) return stopped_at_start({});
  if (given.devices.emulate) return run_emulated(given, options, observer, launcher);
  Config config = launcher.shares_files() ? given : with_fetched_data(given, options.part, world);
  resolve_numerics(config, ops::instruction_set(), world);
  std::vector<std::optional<data::Announced>> elsewhere;
  if (options.part) elsewhere = exchange_announcements(config, *options.part, world);
  std::optional<data::Data> data;
  std::optional<ClientData> clients;
  std::optional<engine::CompiledStep> compiled;
  StartOptions start = options.start;
  comm::together(world, [&] {
    data::Query query = data_query(config);
    // Nobody else looks at an owner's tokens.
    query.process = options.part ? 0 : world.rank();
    query.processes = options.part ? 1 : world.size();
    query.elsewhere = elsewhere;
    data.emplace(query);
    clients = client_data(config, *data);
    if (world.rank() == 0 || options.part) start.data = to_hex(data->digest());
    compiled.emplace(compile_step(config));
    if (!(options.part && config.edge.averages())) engine::check_devices(*compiled, launcher);
  });
  if (agree_to_stop(world)) return stopped_at_start({});
  checkpoint::CheckpointLayout layout = checkpoint_layout(compiled->model, config.model);
  const bool in_rounds = options.part && config.edge.averages();
  const bool in_parts = options.part && !in_rounds;
  std::optional<RoundExchange> exchange;
  if (in_rounds)
    exchange.emplace(world, config.edge.client_count(), client_of(config, *options.part));
  comm::LocalLauncher alone;
  comm::Launcher& devices_here = in_rounds ? alone : launcher;
  if (in_parts) layout = part_layout(*compiled, layout, world.rank());
  const bool keeps = in_parts && keeps_part(*compiled, config, world.rank());
  std::string back;
  std::optional<MovedState> moved;
  if (keeps_state(options)) {
    moved = state_in_memory({.kept = *options.kept,
                             .everyone = options.everyone != nullptr ? *options.everyone : world,
                             .compiled = *compiled,
                             .layout = layout},
                            config, start);
  }
  const Job job{config,
                options,
                *data,
                clients,
                *compiled,
                layout,
                std::move(moved),
                in_rounds  ? start_of_rounds(config, start, layout, world)
                : in_parts ? prepare_parts({&config, &layout, keeps, &world}, start, back)
                           : start_of(config, start, layout, launcher),
                at_once_of(*compiled, config, devices_here),
                observer,
                devices_here.has_own_processes(compiled->devices()),
                devices_here.shares_files(),
                keeps,
                exchange ? &*exchange : nullptr,
                start.data};
  world.set_patience(options.patience);
  if (world.rank() == 0) {
    observer.on_compiled(*compiled);
    for (const std::string& warning : {back, validation_warning(*data, data_query(config))})
      if (!warning.empty()) observer.on_warning(warning);
  }
  RunReport report;
  launcher.set_pin(config.devices.pin ? comm::Pin::Yes : comm::Pin::No);
  or_remove_drafts(config, world, [&] {
    devices_here.run(
        compiled->devices(), static_cast<int>(config.devices.threads),
        [&](comm::Communicator& devices) {
          RunReport mine = DeviceRun(job, devices).run();
          if (devices.rank() == 0 || devices_here.devices()) report = std::move(mine);
        },
        [&](const std::exception& error) { observer.on_stuck(error); });
  });
  report.exact = *config.numerics.exact;
  return report;
}

}  // namespace cleave::train
