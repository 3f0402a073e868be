#include "bench/step_flags.h"

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/model/presets.h"

namespace cleave::app {

void add_step_flags(CLI::App& command, StepFlags& flags) {
  command.add_option("--preset", flags.preset, "Model")->capture_default_str();
  command.add_option("--dtype", flags.dtype, "f32 or bf16")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
  command.add_option("--microbatch", flags.microbatch, "Sequences of the step")
      ->capture_default_str();
  command.add_option("--sequence", flags.sequence, "Tokens of a sequence")->capture_default_str();
  command.add_option("--repeats", flags.repeats, "Steps to take the median of")
      ->capture_default_str();
  command.add_flag("--json", flags.json, "One JSON object on stdout");
}

Graph model_of(const StepFlags& flags) {
  require(flags.microbatch >= 1 && flags.sequence >= 1 && flags.repeats >= 1,
          "--microbatch, --sequence and --repeats must be at least 1");
  return model::graph_of(model::find_preset(flags.preset).shape,
                         {.sequences = flags.microbatch,
                          .sequence = flags.sequence,
                          .dtype = flags.dtype == "bf16" ? DType::BF16 : DType::F32});
}

std::string text_of(const StepFlags& flags) {
  return fmt::format("{} {}, {} x {} tokens", flags.preset, flags.dtype, flags.microbatch,
                     flags.sequence);
}

}  // namespace cleave::app
