#include "cleave/train/step/round_server.h"

#include "cleave/train/step/owner_flow.h"
#include "cleave/train/step/run_optimizer.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

/// Every program computes something. One that is never run is the smallest that there is.
Config without_evaluation(Config config) {
  config.train.microbatch = 1;
  return config;
}

}  // namespace

bool server_evaluates(const data::Data& data) {
  return data.validation() != nullptr && data.held_out().empty();
}

engine::CompiledStep compile_server(const Config& config, bool evaluates) {
  const Config held = evaluates ? config : without_evaluation(config);
  engine::CompileOptions options = compile_options(held);
  options.purpose = engine::Purpose::Hold;
  options.optimizer = &server_optimizer(config);
  engine::CompiledStep step = engine::compile(model_of(held), options);
  check_rounds(config);
  check_flow(config, step);
  return step;
}

}  // namespace cleave::train
