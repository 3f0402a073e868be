// The schedule "auto" of a training step: as fast as memory allows, never beyond it.

#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/model/family.h"

namespace cleave::engine {
namespace {

using Bytes = std::vector<std::int64_t>;

CompiledStep step_of(const std::string& schedule, const Bytes& budgets = {}, int chunks = 0) {
  const ModelShape shape{.kind = &model::gpt,
                         .layers = 6,
                         .hidden = 32,
                         .heads = 4,
                         .kv_heads = 4,
                         .ffn = 64,
                         .vocab = 61,
                         .context = 32};
  return compile(model::graph_of(shape, {.sequences = 2, .sequence = 32, .dtype = DType::F32}),
                 {.layout = {.pipeline = 2, .chunks = chunks, .schedule = schedule},
                  .microbatches = 8,
                  .budgets = budgets});
}

TEST(AutoStep, FitsWhereALeanScheduleFits) {
  const Bytes lean = step_of("1f1b").planned_bytes;
  EXPECT_GT(step_of("auto").planned_bytes, lean);  // not limited, it keeps more alive

  const CompiledStep limited = step_of("auto", lean);
  for (std::size_t d = 0; d < lean.size(); ++d) EXPECT_LE(limited.planned_bytes[d], lean[d]);
}

TEST(AutoStep, GoesDownToOneMicrobatchThenRefusesWithTheNumbers) {
  const Bytes lasting = [] {
    Bytes bytes(2);
    const CompiledStep step = step_of("1f1b");
    for (const schedule::Buffer& b : step.program.buffers)
      if (b.microbatch < 0) bytes[b.device] += aligned(b.bytes);
    return bytes;
  }();
  try {
    step_of("auto", lasting);
    FAIL() << "activations fit into nothing";
  } catch (const DoesNotFit& refused) {
    const std::string says = refused.what();
    EXPECT_NE(says.find("device 0 needs "), std::string::npos) << says;
    EXPECT_NE(says.find("(" + std::to_string(lasting[0]) + " bytes)"), std::string::npos) << says;
  }
}

TEST(AutoStep, ChoosesAmongPlacementsOfSeveralChunks) {
  const schedule::Program program = step_of("auto", {}, 2).program;
  EXPECT_EQ(program.stages, 4);
  EXPECT_EQ(program.schedule, "auto");
}

TEST(AutoStep, IsTheSameEveryTime) {
  const Bytes lean = step_of("1f1b").planned_bytes;
  EXPECT_EQ(step_of("auto", lean).program.lists, step_of("auto", lean).program.lists);
}

}  // namespace
}  // namespace cleave::engine
