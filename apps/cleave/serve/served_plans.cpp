#include "serve/served_plans.h"

#include "serve/budgets.h"

#include "cleave/comm/launcher.h"
#include "cleave/train/tune/auto_plan.h"

namespace cleave::app {

using comm::Candidate;

SurveyEpoch ServedPlans::survey_epoch() const {
  return {.threads = static_cast<int>(config_.devices.threads)};
}

train::Config ServedPlans::first(std::vector<Candidate>& devices) const {
  comm::LocalLauncher here;
  const int threads = survey_epoch().threads;
  if (!are_open()) return train::with_latency_hidden(config_, here, known_.facts(devices, threads));
  train::Config open = asked_;
  open.train.microbatch = config_.train.microbatch;
  open.numerics = config_.numerics;
  const std::vector<std::int64_t> budgets = budgets_of(asked_.devices.memory, devices);
  const train::AutoPlan plan =
      train::plan_run(train::on_devices(open, budgets), here, known_.facts(devices, threads));
  train::require_fit(plan);
  return plan.choice().config;
}

train::Regrouping ServedPlans::next(const train::Config& present,
                                    std::vector<Candidate>& candidates) const {
  const std::vector<std::int64_t> budgets = budgets_of(config_.devices.memory, candidates);
  comm::LocalLauncher here;
  train::Config wanted = present;
  wanted.train.copies = config_.train.copies;
  return train::regroup(wanted, budgets, here, known_.facts(candidates, survey_epoch().threads));
}

std::string ServedPlans::lack_after_a_loss() const {
  std::vector<Candidate> left(static_cast<std::size_t>(config_.devices.count) - 1);
  for (std::size_t i = 0; i < left.size(); ++i) left[i].seat = static_cast<std::int64_t>(i);
  comm::LocalLauncher here;
  const train::Regrouping plan =
      train::regroup(config_, budgets_of(config_.devices.memory, left), here);
  return plan.run ? "" : plan.lack;
}

}  // namespace cleave::app
