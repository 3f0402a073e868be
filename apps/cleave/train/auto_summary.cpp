#include "train/auto_summary.h"

#include <algorithm>
#include <fstream>

#include "streams.h"
#include <fmt/format.h>

#include "cleave/base/units.h"
#include "cleave/engine/measure/machine.h"
#include "cleave/report/text_table.h"
#include "cleave/train/tune/segment_profile.h"

namespace cleave::app {
namespace {

constexpr std::size_t kRows = 3;  ///< of runs that fit and of runs that do not

std::string reason(const plan::Prediction& run, const plan::Prediction& best) {
  if (run.step_seconds <= best.step_seconds) return "as fast; the plainer one wins";
  const plan::Reason why = why_slower(best, run);
  return fmt::format("{} ({} {:+.1f} %)", format_share(run.step_seconds / best.step_seconds - 1),
                     why.part, 100 * why.share);
}

/// "3+3" layers, or "own 1x2+2x1": stages and replicas of the encoder, then of what reads it.
std::string cut_of(const train::ParallelConfig& p) {
  if (p.partition) return fmt::format("{}", fmt::join(*p.partition, "+"));
  return fmt::format("own {}x{}+{}x{}", *p.vision_pipeline, *p.vision_data,
                     *p.pipeline - *p.vision_pipeline, *p.data);
}

std::vector<std::string> row(const train::PlannedRun& planned, const std::string& why) {
  const train::ParallelConfig& p = planned.config.parallel;
  const plan::Prediction& run = planned.predicted;
  const std::int64_t chunks = p.chunks.value_or(1);
  const std::string memory = run.memory_bytes > 0 ? format_bytes(run.memory_bytes) : "-";
  return {std::to_string(*p.pipeline),
          std::to_string(*p.tensor),
          std::to_string(*p.data),
          std::to_string(run.layout.microbatch),
          p.schedule + (chunks > 1 ? fmt::format(" x{}", chunks) : ""),
          cut_of(p),
          std::to_string(*p.zero),
          std::string(recompute_name(run.layout)),
          format_seconds(run.step_seconds),
          format_share(run.bubble_rate),
          format_share(plan::communication_share(run)),
          memory,
          why};
}

/// Says how the choice was made: among runs about as fast as each other the plainest wins.
std::string chosen_as(const train::AutoPlan& plan) {
  if (plan.considered == 1)
    return plan.fitting.empty() ? "the only layout, which does not fit" : "the only layout";
  const auto faster = [&](const train::PlannedRun& run) {
    return run.predicted.step_seconds < plan.choice().predicted.step_seconds;
  };
  return fmt::format("{} of {} layouts",
                     plan.fitting.empty() ? "none fits; the nearest"
                     : std::ranges::any_of(plan.fitting, faster)
                         ? "the plainest of the fastest that fit"
                         : "the fastest that fits",
                     plan.considered);
}

}  // namespace

std::string describe_auto(const train::AutoPlan& plan) {
  if (plan.considered == 0) return "";
  const train::PlannedRun& choice = plan.choice();
  std::string text = fmt::format("auto: {}\n      {}\n", describe(choice.config), chosen_as(plan));
  for (std::size_t i = 1; i < std::min(kRows, plan.fitting.size()); ++i) {
    const train::PlannedRun& next = plan.fitting[i];
    text += fmt::format("      then {}: {:+.1f} %\n", describe(next.config),
                        100 * (next.predicted.step_seconds / choice.predicted.step_seconds - 1));
  }
  const auto faster = std::ranges::count_if(plan.unfit, [&](const train::PlannedRun& run) {
    return run.predicted.step_seconds < choice.predicted.step_seconds;
  });
  if (faster > 0 && !plan.fitting.empty()) {
    const train::PlannedRun& first = plan.unfit.front();
    text += fmt::format("      {} would be faster but {} not fit: {} lacks {}\n", faster,
                        faster == 1 ? "does" : "do", describe(first.config),
                        format_bytes(first.predicted.excess()));
  }
  return text;
}

std::string candidate_table(const train::AutoPlan& plan) {
  if (plan.considered == 0) return "";
  std::vector<std::vector<std::string>> rows = {{"pipeline", "tensor", "data", "micro", "schedule",
                                                 "layers", "zero", "recompute", "step", "bubble",
                                                 "exchange", "memory", "why not"}};
  for (std::size_t i = 0; i < std::min(2 * kRows, plan.fitting.size()); ++i) {
    const train::PlannedRun& run = plan.fitting[i];
    rows.push_back(row(run, i == 0 ? "chosen" : reason(run.predicted, plan.choice().predicted)));
  }
  for (std::size_t i = 0; i < std::min(kRows, plan.unfit.size()); ++i) {
    const train::PlannedRun& run = plan.unfit[i];
    rows.push_back(row(run, fmt::format("device {} lacks {}", run.predicted.device,
                                        format_bytes(run.predicted.excess()))));
  }
  std::string text = fmt::format("auto: {}\n{}", chosen_as(plan), report::text_table(rows));
  if (plan.slower > 0)
    text += fmt::format("{} layouts are slower whatever they do about memory\n", plan.slower);
  return text + "\n";
}

std::string describe_excess(const train::AutoPlan& plan, const engine::CompiledStep& step) {
  if (plan.considered > 0) return train::describe_excess(plan);
  const auto lacks = [&](int d) { return step.planned_on(d) - step.budgets[d]; };
  int worst = 0;
  for (int d = 0; d < step.devices(); ++d) {
    if (lacks(d) > lacks(worst)) worst = d;
  }
  return fmt::format(
      "device {} needs {} and has {}, {} too little; raise devices.memory, use more "
      "devices, or make the microbatch or the model smaller",
      worst, format_bytes(step.planned_on(worst)), format_bytes(step.budgets[worst]),
      format_bytes(lacks(worst)));
}

void prepare_measuring(bool remeasure, comm::Launcher& launcher) {
  if (remeasure) train::forget_profiles();
  if (launcher.processes().rank() != 0) return;
  std::ifstream file("/proc/loadavg");
  double minute = 0, five = 0, fifteen = 0;
  int running = 0;  // at this moment, with ourselves
  if (!(file >> minute >> five >> fifteen >> running)) return;
  const int own = launcher.processes().size();
  const int cores = engine::allowed_threads();
  if (running - own < cores) return;
  complain(
      "cleave: warning: {} other threads compute on this machine, which has {}: what is measured "
      "now "
      "is slower than it will be; measure again later with --remeasure\n",
      running - own, counted(cores, "hardware thread"));
}

}  // namespace cleave::app
