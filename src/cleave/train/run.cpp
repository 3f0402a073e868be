#include "cleave/train/run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>

#include "cleave/base/process_memory.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/comm/pinning.h"
#include "cleave/comm/together.h"
#include "cleave/train/checkpoint_directory.h"
#include "cleave/train/saving.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::atomic<bool> stop_requested = false;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Everything that the devices of a run share.
struct Job {
  const Config& config;
  const Data& data;
  const runtime::CompiledStep& compiled;
  const CheckpointLayout& layout;
  const Start start;
  RunObserver& observer;
  bool own_process;  ///< each device has one, as MPI ranks do
};

/// One device's part of a run.
class DeviceRun {
 public:
  DeviceRun(const Job& job, int device, comm::Communicator* world)
      : job_(job),
        world_(world),
        index_(device),
        replica_(schedule::Topology(job.compiled.program).replica[device]),
        trainer_(job.config, job.data, job.compiled, device, world) {}

  RunReport run() {
    begin();
    if (job_.start.finished) {
      report_.finished_before = true;
      report_.checkpoint = job_.start.resume_from.string();
      return finish();
    }
    const TrainConfig& train = job_.config.train;
    bool stop = false;
    while (trainer_.steps_done() < train.steps && !stop) {
      const std::int64_t heap = report_.losses.empty() ? heap_bytes() : 0;
      const StepReport step = trainer_.step(stop_requested.load(std::memory_order_relaxed));
      if (report_.losses.empty()) first_step_heap_ = heap_bytes() - heap;
      stop = step.stop;
      note(step);
      const bool last = stop || step.step == train.steps;
      if (due(train.eval_every, step.step) || last) evaluate();
      if (due(train.checkpoint_every, step.step) && !last) save();
    }
    save();
    report_.stopped = trainer_.steps_done() < train.steps;
    return finish();
  }

 private:
  static bool due(std::int64_t every, std::int64_t step) { return every > 0 && step % every == 0; }

  void begin() {
    const Start& start = job_.start;
    if (start.resume_from.empty()) {
      trainer_.initialise();
      if (start.init_from.empty()) return;
      load(CheckpointReader(start.init_from), job_.layout, Load::WeightsOnly, trainer_.device());
      return;
    }
    const CheckpointReader reader(start.resume_from);
    load(reader, job_.layout, Load::Everything, trainer_.device());
    trainer_.continue_after(reader.state().step);
    if (index_ == 0) job_.observer.on_resumed(reader.state().step, start.resume_from.string());
  }

  void note(const StepReport& step) {
    report_.losses.push_back(step.loss);
    seconds_.push_back(step.seconds);
    double busy = 0;
    double wait = 0;
    for (const plan::Span& span : trainer_.device().executor().spans()) {
      const double length = span.end - span.begin;
      const bool works =
          span.kind == plan::SpanKind::Compute || span.kind == plan::SpanKind::Update;
      (works ? busy : wait) += length;
    }
    busy_.push_back(busy);
    wait_.push_back(wait);
    if (index_ == 0) job_.observer.on_step(step);
  }

  void evaluate() {
    const std::optional<double> loss = trainer_.evaluate();
    if (!loss) return;
    report_.validation_loss = loss;
    if (index_ == 0) job_.observer.on_evaluated(trainer_.steps_done(), *loss);
  }

  void save() {
    const Clock::time_point start = Clock::now();
    train::save(job_.config, job_.layout, trainer_.steps_done(), replica_, trainer_.device(),
                world_);
    if (index_ != 0) return;
    const std::chrono::duration<double> seconds = Clock::now() - start;
    report_.checkpoint =
        checkpoint_path(fs::path(job_.config.train.out) / "checkpoints", trainer_.steps_done())
            .string();
    job_.observer.on_saved(trainer_.steps_done(), report_.checkpoint, seconds.count());
  }

  /// Puts the numbers of all devices together; the same report on each.
  RunReport finish() {
    report_.steps = trainer_.steps_done();
    report_.step_seconds = median(seconds_);
    const double tokens = static_cast<double>(job_.config.train.batch * job_.config.train.sequence);
    if (report_.step_seconds > 0) report_.tokens_per_second = tokens / report_.step_seconds;
    gather_devices();
    gather_weights();
    double busy = 0;
    for (const DeviceReport& device : report_.devices) busy += device.busy;
    const double room = static_cast<double>(report_.devices.size()) * report_.step_seconds;
    report_.bubble = room > 0 ? std::max(0.0, 1 - busy / room) : 0;
    return std::move(report_);
  }

  void gather_devices() {
    constexpr int kFields = 7;
    const int devices = job_.compiled.program.devices;
    std::vector<double> fields(static_cast<std::size_t>(devices * kFields));
    double* mine = &fields[static_cast<std::size_t>(index_ * kFields)];
    const auto steps = static_cast<double>(std::max<std::size_t>(1, seconds_.size()));
    mine[0] = static_cast<double>(trainer_.device().arena().peak());
    mine[1] = static_cast<double>(trainer_.device().parameter_count());
    mine[2] = world_ == nullptr ? 0 : static_cast<double>(sent_in_steps()) / steps;
    mine[3] = median(busy_);
    mine[4] = median(wait_);
    mine[5] = static_cast<double>(library_bytes());
    mine[6] = job_.own_process ? static_cast<double>(peak_resident_bytes()) : 0;
    if (world_ != nullptr) world_->combine(fields, comm::Combine::Sum);
    const auto& budgets = job_.compiled.program.budgets;
    for (int d = 0; d < devices; ++d) {
      const double* field = &fields[static_cast<std::size_t>(d * kFields)];
      report_.devices.push_back({.peak_bytes = static_cast<std::int64_t>(field[0]),
                                 .planned_bytes = job_.compiled.planned_bytes[d],
                                 .budget_bytes = budgets.empty() ? 0 : budgets[d],
                                 .library_bytes = static_cast<std::int64_t>(field[5]),
                                 .resident_bytes = static_cast<std::int64_t>(field[6]),
                                 .parameters = static_cast<std::int64_t>(field[1]),
                                 .bytes_sent = static_cast<std::int64_t>(field[2]),
                                 .busy = field[3],
                                 .wait = field[4]});
    }
  }

  /// Our own code allocates nothing inside a step, so what the first one left on the heap is the
  /// libraries'. Devices that share a process share this too.
  std::int64_t library_bytes() const {
    const std::int64_t bytes = job_.compiled.library_bytes + first_step_heap_;
    return job_.own_process ? bytes : bytes / job_.compiled.program.devices;
  }

  std::int64_t sent_in_steps() const { return trainer_.bytes_sent(); }

  /// Hashes by tensor, exchanged as two halves of 32 bits, which f64 holds exactly.
  void gather_weights() {
    const auto& names = job_.compiled.tensor_names;
    std::vector<double> halves(2 * names.size());
    for (const auto& [name, hash] : trainer_.device().weight_hashes()) {
      if (replica_ != 0) break;
      const auto at =
          static_cast<std::size_t>(std::ranges::lower_bound(names, name) - names.begin());
      halves[2 * at] = static_cast<double>(hash >> 32);
      halves[2 * at + 1] = static_cast<double>(hash & 0xffffffff);
    }
    if (world_ != nullptr) world_->combine(halves, comm::Combine::Sum);
    std::vector<std::pair<std::string, std::uint64_t>> hashes;
    for (std::size_t i = 0; i < names.size(); ++i) {
      hashes.emplace_back(names[i], (static_cast<std::uint64_t>(halves[2 * i]) << 32) |
                                        static_cast<std::uint64_t>(halves[2 * i + 1]));
    }
    report_.weights = runtime::combine_hashes(std::move(hashes));
  }

  const Job& job_;
  comm::Communicator* world_;
  int index_;
  int replica_;
  Trainer trainer_;
  RunReport report_;
  std::vector<double> seconds_;
  std::vector<double> busy_;
  std::vector<double> wait_;
  std::int64_t first_step_heap_ = 0;  ///< growth of the process's heap
};

RunReport run_local(const Job& job) {
  const int devices = job.compiled.program.devices;
  if (devices == 1) return DeviceRun(job, 0, nullptr).run();
  const comm::Pinning pinning = comm::plan_pinning(comm::allowed_cores(), devices,
                                                   static_cast<int>(job.config.devices.threads));
  std::mutex mutex;
  RunReport report;
  comm::run_devices(devices, [&](comm::Communicator& world) {
    comm::pin_this_thread(pinning.devices[world.rank()]);
    RunReport mine = DeviceRun(job, world.rank(), &world).run();
    const std::lock_guard lock(mutex);
    if (world.rank() == 0) report = std::move(mine);
  });
  return report;
}

}  // namespace

void request_stop() noexcept {
  stop_requested.store(true, std::memory_order_relaxed);
}

RunReport run(const Config& config, const RunOptions& options, RunObserver& observer,
              comm::Communicator* world) {
  std::optional<Data> data;
  std::optional<runtime::CompiledStep> compiled;
  comm::together(world, [&] {
    data.emplace(config);
    compiled.emplace(compile_step(config));
  });
  const CheckpointLayout layout = checkpoint_layout(*compiled);
  const Job job{config,
                *data,
                *compiled,
                layout,
                prepare_start(config, options.start, layout, world),
                observer,
                world != nullptr || compiled->program.devices == 1};
  if (world == nullptr || world->rank() == 0) observer.on_compiled(*compiled);
  if (world == nullptr) return run_local(job);
  return DeviceRun(job, world->rank(), world->size() > 1 ? world : nullptr).run();
}

}  // namespace cleave::train
