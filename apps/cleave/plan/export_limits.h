#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/plan/tune/analytic/workload.h"
#include "cleave/plan/tune/layout.h"

namespace cleave::app {

/// Into how many rounds of as many microbatches as devices a schedule can cut those of a step.
enum class Rounds : std::uint8_t {
  Any,
  Equal,  ///< as many microbatches in each
  Whole,  ///< one microbatch for each device of the pipeline
};

/// A schedule of ours, and what another system calls it.
struct ExportSchedule {
  std::string_view ours;
  std::string_view theirs;
  Rounds rounds = Rounds::Any;
};

/// What a system has with a pipeline, or without.
struct ExportReach {
  std::vector<int> zero;
  std::vector<schedule::Recompute> recompute;
  bool tensor = true;
};

/// Whether the rows between products of a tensor group are divided by tokens.
enum class RowsOfTensor : std::uint8_t { Either, Whole, Divided };

/// What a training system can be told to do of what our layouts say.
struct ExportLimits {
  std::string_view name;  ///< "Megatron-LM"
  std::vector<ExportSchedule> schedules;
  ExportReach alone;  ///< without a pipeline
  ExportReach in_pipeline;
  int most_zero_with_tensor = 3;
  RowsOfTensor rows = RowsOfTensor::Either;
  bool even_stages = false;  ///< it is told how many layers a stage has
};

ExportLimits megatron_limits();
ExportLimits torchtitan_limits();
ExportLimits deepspeed_limits();

/// What of `layout` the system does not have: "the schedule zb-h1; it has 1f1b, interleaved".
/// Empty: it has everything.
std::string lack(const ExportLimits& system, const plan::Workload& work,
                 const plan::Layout& layout);

/// How many layers each end of a model counts as where stages of equal size are as we cut them: 0
/// or 1. Nothing: there are no such stages.
std::optional<int> layers_of_ends(std::int64_t layers, std::int64_t stages);

/// What the system calls the layout's schedule, which it has.
std::string_view schedule_name(const ExportLimits& system, const plan::Layout& layout);

}  // namespace cleave::app
