#pragma once

#include <cstdint>
#include <string>

#include "command.h"

#include "cleave/spec/graph.h"

namespace cleave::app {

/// Which step a benchmark times, and how.
struct StepFlags {
  std::string preset = "gpt2-124m";
  std::string dtype = "f32";
  std::int64_t microbatch = 4;
  std::int64_t sequence = 256;
  int repeats = 5;
  bool json = false;
};

/// --preset, --dtype, --microbatch, --sequence, --repeats and --json.
void add_step_flags(CLI::App& command, StepFlags& flags);

/// Throws UserError unless there is such a step.
Graph model_of(const StepFlags& flags);

/// What a step of the preset counts: "tokens", "images" or "pairs".
std::string samples_of(const StepFlags& flags);

/// "gpt2-124m bf16, 4 x 256 tokens", or "vit-b-16 f32, batch 4 of images, 224 x 224 pixels".
std::string text_of(const StepFlags& flags);

}  // namespace cleave::app
