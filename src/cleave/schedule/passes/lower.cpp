#include <array>
#include <chrono>

#include "cleave/base/check.h"
#include "cleave/schedule/passes/pass.h"

namespace cleave::schedule {
namespace {

constexpr std::array kPasses = {
    Pass{"replicas", replicate},
    Pass{"recompute", add_recompute},
    Pass{"communication", add_communication},
    Pass{"segments", split_segments},
    Pass{"collections", collect_steps},
    Pass{"parameters", shard_parameters},
    Pass{"gradients", add_gradients},
    Pass{"moves", add_moves},
    Pass{"state moves", add_state_moves},
    Pass{"through host", pass_through_host},
};

}  // namespace

std::span<const Pass> passes() {
  return kPasses;
}

Program lower(Program program, const LowerOptions& options, std::vector<PassTime>* times) {
  require(is_compute_only(program),
          "only a program of F, I, W, B and R can be lowered; this one has more instructions "
          "already");
  for (const Pass& pass : kPasses) {
    const auto start = std::chrono::steady_clock::now();
    program = pass.run(std::move(program), options);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (times != nullptr) times->push_back({pass.name, took.count()});
  }
  return program;
}

}  // namespace cleave::schedule
