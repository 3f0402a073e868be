#include "cleave/train/loop/device_run.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cleave/base/process_memory.h"
#include "cleave/engine/measure/profile.h"
#include "cleave/train/keep/state_copies.h"
#include "cleave/train/loop/checkpoints.h"
#include "cleave/train/loop/first_state.h"
#include "cleave/train/loop/forecast.h"
#include "cleave/train/loop/gathered_weights.h"
#include "cleave/train/loop/round_times.h"
#include "cleave/train/loop/run_prediction.h"
#include "cleave/train/loop/starting.h"
#include "cleave/train/loop/state_in_memory.h"
#include "cleave/train/step/example_steps.h"

namespace cleave::train {
namespace {

bool due(std::int64_t every, std::int64_t step) {
  return every > 0 && step % every == 0;
}

/// One device's part of a run.
class DeviceRun {
 public:
  DeviceRun(const Job& job, comm::Communicator& world)
      : job_(job),
        world_(world),
        index_(job.turns != nullptr ? job.turns->device() : world.rank()),
        trainer_(job.config, job.training_data(), job.compiled, index_,
                 job.turns != nullptr ? job.turns->pipeline() : world),
        checkpoints_(job, trainer_, world) {
    world.set_patience(job.options.patience);
    if (keeps_state(job.options) && can_keep_state(job.compiled)) {
      copies_.emplace(trainer_.device(), job.compiled, job.layout, world);
      trainer_.set_watch(&*copies_);
    }
    if (job.config.edge.averages()) report_.averaged = before_the_first_round(job);
  }

  RunReport run() {
    try {
      RunReport report = train();
      leave_memory();
      if (report.paused) leave_state();
      return report;
    } catch (...) {
      leave_memory();
      leave_state();
      throw;
    }
  }

 private:
  RunReport train() {
    // Whose turn it is has not been said yet, so nobody is there to measure messages with.
    if (!job_.start.finished && job_.options.predict && job_.turns == nullptr) {
      predict();
      agree_on_timelines();
      if (agree_to_stop(world_)) return stopped_at_start(job_.start);
    }
    report_.load_seconds = give_first_state(job_, trainer_, world_);
    if (copies_) forget_what_was_kept();
    trainer_.share_start();
    if (job_.exchange != nullptr && report_.predicted_step_seconds)
      report_.averaged->predicted_seconds = predicted_round(job_, report_);
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
      if (serves()) rounds_.note_end();
      if (job_.exchange != nullptr && !serves()) trainer_.share_round(step);
      if (copies_) copies_->end_step(trainer_.steps_done());
      if (report_.losses.empty()) library_heap_ += heap_bytes() - heap;
      stop = step.stop;
      const bool last = step.step == train.steps || (stop && ends_for_good());
      step.evaluates =
          (due(train.eval_every, step.step) || last) && trainer_.evaluated_sequences() > 0;
      // Before anybody hears of it: a round is played once, whoever is lost.
      if (serves()) checkpoints_.save(step.step);
      note(step);
      if (serves()) trainer_.share_round(step);
      if (due(timeline_every_, step.step)) tell_timeline();
      checkpoints_.look();
      if (step.evaluates) evaluate();
      if (due(train.checkpoint_every, step.step) && !last && !stop && job_.exchange == nullptr)
        checkpoints_.save_and_go_on(trainer_.steps_done());
    }
    checkpoints_.settle();
    if (job_.exchange == nullptr && !hands_over()) checkpoints_.save(trainer_.steps_done());
    report_.stopped = trainer_.steps_done() < train.steps;
    report_.paused = report_.stopped && !stop_was_requested();
    return finish();
  }

  /// What was kept for this plan goes when all that it was kept for is here twice.
  void forget_what_was_kept() {
    copies_->copy_now(trainer_.steps_done());
    world_.barrier().wait();
    job_.options.kept->forget();
  }

  /// Where no step was done there is nothing to compare.
  void leave_memory() {
    if (job_.options.memory == nullptr || times_.steps() == 0) return;
    *job_.options.memory = {.planned_bytes = trainer_.device().executor().planned_bytes(),
                            .peak_bytes = trainer_.device().arena().peak()};
  }

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

  /// Whether the run stops, not only this plan of it: another one goes on, and evaluates when it is
  /// due. All devices call it after the same step.
  bool ends_for_good() {
    if (!copies_) return true;
    double ends = index_ == 0 && stop_was_requested() ? 1 : 0;
    world_.combine({&ends, 1}, comm::Combine::Max);
    return ends > 0;
  }

  /// Whether clients that are apart send what they make of the weights here.
  bool serves() const { return job_.exchange != nullptr && job_.exchange->is_server(); }

  bool pause_is_due() const { return job_.options.pause && job_.options.pause(); }

  void predict() {
    const std::int64_t heap = heap_bytes();
    const engine::Profile profile = trainer_.profile(job_.at_once);
    library_heap_ = heap_bytes() - heap;
    predict_run(job_, profile, report_);
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

  TracedStep measured() {
    return measured_step(job_.compiled, trainer_.device().executor(), world_, trainer_.pattern());
  }

  void tell_timeline() {
    const TracedStep step = measured();
    if (index_ == 0) job_.observer.on_timeline(trainer_.steps_done(), step);
  }

  void note(StepReport step) {
    if (!report_.first_loss) report_.first_loss = step.loss;
    if (report_.losses.size() == 2 * kKeptLosses)
      report_.losses.erase(report_.losses.begin(), report_.losses.begin() + kKeptLosses);
    report_.losses.push_back(step.loss);
    const engine::Executor& executor = trainer_.device().executor();
    if (report_.averaged) add_round(step, *report_.averaged);
    times_.note(step.seconds / static_cast<double>(std::max<std::int64_t>(1, step.local_steps)),
                executor.spans(), executor.exchanges(), executor.held_up());
    step.wait = times_.last_wait();
    step.epochs = epochs(step.step);
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

  /// Puts the numbers of all devices together; the same report on each.
  RunReport finish() {
    report_.steps = trainer_.steps_done();
    report_.epochs = epochs(report_.steps);
    report_.left_out = job_.compiled.left_out();
    if (!checkpoints_.newest().empty()) report_.checkpoint = checkpoints_.newest();
    if (report_.averaged) {
      double sent = static_cast<double>(trainer_.client_bytes());
      world_.combine({&sent, 1}, comm::Combine::Sum);
      report_.averaged->sent_bytes = static_cast<std::int64_t>(sent);
      report_.averaged->seconds = rounds_.median();
      report_.averaged->epsilon =
          job_.config.edge.by_example()
              ? example_privacy_spent(job_.config, *job_.clients, report_.steps)
              : privacy_spent(job_.config, report_.steps);
    }
    if (report_.losses.size() > kKeptLosses)
      report_.losses.erase(report_.losses.begin(), report_.losses.end() - kKeptLosses);
    report_.step_seconds = times_.seconds();
    const auto tokens = static_cast<double>(job_.config.train.batch * job_.config.train.sequence);
    if (report_.step_seconds > 0) report_.tokens_per_second = tokens / report_.step_seconds;
    report_.devices = job_.exchange != nullptr ? std::vector{report_of_device()}
                                               : gather_reports(report_of_device(), index_,
                                                                job_.compiled.devices(), world_);
    report_.bubble = bubble_of(report_.devices);
    report_.idle = idle_of(report_.devices, report_.step_seconds);
    if (job_.options.trace && job_.turns == nullptr) report_.measured = measured();
    report_.weights = job_.turns != nullptr
                          ? shared_weights(job_.compiled, trainer_, *job_.exchange)
                          : gather_weights(job_.compiled, trainer_.device(), world_);
    return std::move(report_);
  }

  /// Through the training data; with averaging, by all clients of this run together.
  double epochs(std::int64_t steps) const {
    const data::Dataset& training = job_.data.training();
    if (!report_.averaged) return training.epochs(steps);
    return static_cast<double>(report_.averaged->local_steps * job_.config.train.batch) /
           static_cast<double>(training.windows());
  }

  DeviceReport report_of_device() {
    const auto& budgets = job_.compiled.budgets;
    const engine::Executor& executor = trainer_.device().executor();
    DeviceReport report{
        .peak_bytes = trainer_.device().arena().peak(),
        .planned_bytes = executor.planned_bytes(),
        .outside_bytes = trainer_.device().outside().peak(),
        .planned_outside_bytes = executor.planned_outside_bytes(),
        .host_bytes = trainer_.device().host().peak(),
        .planned_host_bytes = executor.planned_host_bytes(),
        .budget_bytes = budgets.empty() ? 0 : budgets[index_],
        .library_bytes = library_bytes(),
        .resident_bytes = job_.own_process ? peak_resident_bytes() : 0,
        .parameters = trainer_.device().parameter_count(),
        .sent = trainer_.sent(),
        .planned_sent = trainer_.planned_sent()};
    if (engine::Device* const held = trainer_.held()) {
      report.peak_bytes += held->arena().peak();
      report.planned_bytes += held->executor().planned_bytes();
      report.parameters += held->parameter_count();
    }
    times_.tell(report);
    return report;
  }

  /// Our own code allocates nothing inside a step, so what the profile and the first step left on
  /// the heap is the libraries'. Devices that share a process share this too.
  std::int64_t library_bytes() const {
    const std::int64_t bytes = job_.compiled.library_bytes + library_heap_;
    return job_.own_process ? bytes : bytes / job_.compiled.devices();
  }

  const Job& job_;
  comm::Communicator& world_;
  int index_;
  Trainer trainer_;
  std::optional<StateCopies> copies_;  ///< nothing where a run cannot outlive a loss
  Checkpoints checkpoints_;            ///< ends before the memory that it reads
  RunReport report_;
  StepTimes times_;
  RoundTimes rounds_;
  std::int64_t library_heap_ = 0;    ///< growth of the process's heap
  std::int64_t timeline_every_ = 0;  ///< steps; 0: never
};

}  // namespace

RunReport run_device(const Job& job, comm::Communicator& world) {
  return DeviceRun(job, world).run();
}

}  // namespace cleave::train
