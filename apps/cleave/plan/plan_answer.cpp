#include "plan/plan_answer.h"

#include <chrono>
#include <utility>

#include "cleave/base/check.h"

namespace cleave::app {

PlanAnswer ask(const PlanFlags& flags) {
  PlanAnswer answer{.workload = parse_workload(flags), .searched = !flags.layout};
  const auto start = std::chrono::steady_clock::now();
  if (flags.layout) {
    plan::Prediction one =
        plan::Predictor(answer.workload).predict(parse_layout(*flags.layout, answer.workload));
    (one.fits() ? answer.search.fitting : answer.search.unfit).push_back(std::move(one));
  } else {
    answer.search = plan::search_layouts(answer.workload);
    if (answer.search.fitting.empty() && !answer.search.unfit.empty())
      answer.devices_needed = plan::devices_needed(answer.workload);
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  answer.search_seconds = taken.count();
  require(!answer.listed().empty(), "no data degree of ", answer.workload.cluster.devices,
          " devices divides --batch ", answer.workload.batch,
          "; give a batch that has more divisors, such as a multiple of ",
          answer.workload.cluster.devices);
  return answer;
}

}  // namespace cleave::app
