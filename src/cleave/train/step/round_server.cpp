#include "cleave/train/step/round_server.h"

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/train/step/owner_flow.h"
#include "cleave/train/step/run_optimizer.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

/// Devices of a pipeline over a network: the server comes first.
constexpr int kServerDevice = 0, kClientDevice = 1;

/// Every program computes something. One that is never run is the smallest that there is.
Config without_evaluation(Config config) {
  config.train.microbatch = 1;
  return config;
}

engine::CompileOptions server_options(const Config& held, const Config& config) {
  engine::CompileOptions options = compile_options(held);
  options.purpose = engine::Purpose::Hold;
  options.optimizer = &server_optimizer(config);
  return options;
}

}  // namespace

bool server_evaluates(const data::Data& data) {
  return data.validation() != nullptr && data.held_out().empty();
}

engine::CompiledStep compile_server(const Config& config, const data::Data& data) {
  const Config held = server_evaluates(data) ? config : without_evaluation(config);
  engine::CompiledStep step = engine::compile(model_of(held), server_options(held, config));
  check_rounds(config);
  check_flow(config, step);
  return step;
}

engine::CompiledStep compile_held(const Config& config, const engine::CompiledStep& step) {
  const Config small = without_evaluation(config);
  engine::CompileOptions options = server_options(small, config);
  options.microbatches = 1;
  options.budgets.clear();  // these are of devices that train, and what is held lies on another
  engine::CompiledStep held = engine::compile(model_of(small), options);
  if (step.budgets.empty()) return held;
  const std::int64_t own = step.planned_on(kServerDevice);
  const std::int64_t clients = held.planned_on(kClientDevice);
  const std::int64_t budget = step.budgets[kServerDevice];
  if (own + clients > budget)
    throw DoesNotFit(
        detail::concat("the server needs ", own, " bytes for its layers and ", clients,
                       " to hold the clients' between their turns, ", format_bytes(own + clients),
                       " in all, and has ", format_bytes(budget), " (", budget,
                       " bytes); give its owner more memory, or a smaller train.microbatch"));
  return held;
}

HeldLayers::HeldLayers(const engine::CompiledStep& held)
    : seat_(pair_.join(kClientDevice)), device_(held, kClientDevice, /*threads=*/1, *seat_) {}

}  // namespace cleave::train
