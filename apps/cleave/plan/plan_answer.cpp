#include "plan/plan_answer.h"

#include <chrono>
#include <utility>

#include "plan/plan_export.h"

#include "cleave/base/check.h"

namespace cleave::app {
namespace {

/// What is lost by keeping to a system, which a second search says.
void look_beyond(PlanAnswer& answer) {
  plan::SearchResult all = plan::search_layouts(answer.workload);
  if (all.fitting.empty()) return;
  plan::Prediction& best = all.fitting.front();
  if (answer.search.fitting.empty() || best.step_seconds < answer.choice().step_seconds)
    answer.beyond = std::move(best);
}

void search(const PlanFlags& flags, PlanAnswer& answer) {
  plan::Allowed allowed;
  if (!flags.system.empty()) {
    allowed = layouts_of_system(flags.system, answer.workload);
    answer.kept_to = system_title(flags.system);
  }
  answer.search = plan::search_layouts(answer.workload, allowed);
  if (answer.search.fitting.empty() && !answer.search.unfit.empty())
    answer.devices_needed = plan::devices_needed(answer.workload, allowed);
  if (allowed) look_beyond(answer);
}

plan::Prediction predict_given(const PlanFlags& flags, const plan::Workload& workload) {
  const plan::Layout layout = parse_layout(*flags.layout, workload);
  if (!flags.system.empty()) check_export(flags.system, workload, layout);
  return plan::Predictor(workload).predict(layout);
}

}  // namespace

PlanAnswer ask(const PlanFlags& flags) {
  PlanAnswer answer{.workload = parse_workload(flags), .searched = !flags.layout};
  const auto start = std::chrono::steady_clock::now();
  if (flags.layout) {
    plan::Prediction one = predict_given(flags, answer.workload);
    (one.fits() ? answer.search.fitting : answer.search.unfit).push_back(std::move(one));
  } else {
    search(flags, answer);
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  answer.search_seconds = taken.count();
  require(!answer.listed().empty() || !answer.beyond, answer.kept_to,
          " has none of the layouts that divide --batch ", answer.workload.batch, " among ",
          answer.workload.cluster.devices,
          " devices; change the batch or the number of devices, or leave --export out");
  require(!answer.listed().empty(), "no data degree of ", answer.workload.cluster.devices,
          " devices divides --batch ", answer.workload.batch,
          "; give a batch that has more divisors, such as a multiple of ",
          answer.workload.cluster.devices);
  return answer;
}

}  // namespace cleave::app
