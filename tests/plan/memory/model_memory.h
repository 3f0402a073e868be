#pragma once

#include <cstdint>
#include <vector>

#include "cleave/plan/memory/memory.h"
#include "cleave/schedule/program.h"

namespace cleave::plan::testing {

/// A transformer in the sizes that decide its memory.
struct ModelSizes {
  const char* name;
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t ffn;
  std::int64_t vocabulary;
  std::int64_t tokens;   ///< per microbatch
  std::int64_t element;  ///< bytes of an activation
};

inline const std::vector<ModelSizes>& model_sizes() {
  static const std::vector<ModelSizes> sizes = {
      {"gpt2-124m", 12, 768, 3072, 50257, 1024, 4},
      {"gpt2-xl", 48, 1600, 6400, 50257, 4096, 2},
      {"llama-7b", 32, 4096, 11008, 32000, 2048, 2},
      {"tiny", 5, 64, 256, 257, 96, 4},
  };
  return sizes;
}

/// Layers dealt out to the stages as evenly as they go, the embedding to the first stage and the
/// head to the last; sets the bytes of the edges.
inline std::vector<StageMemory> model_memory(schedule::Program& program, const ModelSizes& model) {
  const std::int64_t row = model.tokens * model.element;  // one feature of all tokens
  const std::int64_t h = model.hidden;
  for (schedule::Edge& edge : program.edges) edge.forward_bytes = edge.backward_bytes = row * h;

  std::vector<StageMemory> stages(program.stages);
  for (int s = 0; s < program.stages; ++s) {
    const std::int64_t n =
        model.layers * (s + 1) / program.stages - model.layers * s / program.stages;
    std::int64_t parameters = n * (4 * h * h + 3 * h * model.ffn + 2 * h);
    StageMemory& stage = stages[s];
    stage.kept_for_weight = n * row * (3 * h + model.ffn);
    stage.kept_for_input = n * (row * (5 * h + model.ffn) + model.tokens * 12 * 4);
    stage.input_kept = n * row * (5 * h + 2 * model.ffn);
    stage.backward_work = row * (5 * h + 2 * model.ffn);
    stage.scratch = row * model.ffn;
    stage.input_until = schedule::Op::BackwardInput;
    if (s == 0) {
      parameters += model.vocabulary * h;
      stage.loaded = model.tokens * 4;
    }
    if (s == program.stages - 1) {
      parameters += model.vocabulary * h;
      stage.kept_for_input += row * model.vocabulary;
      stage.kept_for_weight += row * h;
      stage.input_kept += row * model.vocabulary;
      stage.result = 4;
      stage.gradient_until = schedule::Op::BackwardWeight;
    }
    stage.weights = parameters * 4;
    stage.gradients = parameters * 4;
    stage.optimizer = parameters * 8;
  }
  return stages;
}

}  // namespace cleave::plan::testing
