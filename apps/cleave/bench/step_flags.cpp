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
  command.add_option("--microbatch", flags.microbatch, "Sequences or images of the step")
      ->capture_default_str();
  command.add_option("--sequence", flags.sequence, "Tokens of a sequence; images have none")
      ->capture_default_str();
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

std::string samples_of(const StepFlags& flags) {
  const model::Family& kind = *model::find_preset(flags.preset).shape.kind;
  return kind.pairs ? "pairs" : kind.reads_tokens ? "tokens" : "images";
}

std::string text_of(const StepFlags& flags) {
  const std::string samples = samples_of(flags);
  if (samples == "tokens")
    return fmt::format("{} {}, {} x {} tokens", flags.preset, flags.dtype, flags.microbatch,
                       flags.sequence);
  const std::int64_t side = model::find_preset(flags.preset).shape.image;
  return fmt::format("{} {}, batch {} of {}, {} x {} pixels", flags.preset, flags.dtype,
                     flags.microbatch, samples, side, side);
}

}  // namespace cleave::app
