#include "schedule/written.h"
#include <gtest/gtest.h>

#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

using testing::chain;
using testing::written;

// All violations of a compute-only program, one per line.
std::string faults(const Program& program) {
  std::string text;
  for (const Violation& v : verify_compute(program)) text += to_string(program, v) + "\n";
  return text;
}

void rewrite(Program& program, int device, const std::string& list) {
  program.lists[device] = written(list);
}

// A frozen encoder feeds a frozen projection that passes gradients on to what learns before it.
TEST(GradientKinds, DemandsTheActionsOfEachGradientKind) {
  Program program = chain(1, {"0F0", "1F0 1W0", "2F0 2I0", "3F0 3B0"});
  program.gradients = {GradientKind::None, GradientKind::WeightOnly, GradientKind::InputOnly,
                       GradientKind::Full};
  program.edges[0].backward = false;
  EXPECT_EQ(faults(program), "");

  rewrite(program, 0, "0F0 0B0");
  rewrite(program, 1, "1F0");
  rewrite(program, 2, "2F0 2B0");
  EXPECT_EQ(faults(program),
            "device 0, instruction 1 (0B0): is not wanted: the gradient kind of stage 0 is none\n"
            "device 2, instruction 1 (2B0): is not wanted: the gradient kind of stage 2 is "
            "input-only\n");
  rewrite(program, 0, "0F0");
  rewrite(program, 2, "2F0");
  EXPECT_EQ(faults(program),
            "device 1: W (or B) of stage 1, microbatch 0 is missing\n"
            "device 2: I (or B) of stage 2, microbatch 0 is missing\n");
  program.edges[0].backward = true;
  EXPECT_EQ(faults(program),
            "program: edge 0 carries a gradient back, but stage 1 makes none\n"
            "program: edge 0 carries a gradient back, but stage 0 has no use for it\n");
}

TEST(GradientKinds, WantsNothingOfAbsentStages) {
  Program program = chain(2, {"0F1 0B1", "1F0 1B0 1F1 1B1"});
  program.absent = {{.stage = 0, .microbatch = 0}};
  EXPECT_EQ(faults(program), "");

  rewrite(program, 0, "0F0 0F1 0B1");
  EXPECT_EQ(faults(program),
            "device 0, instruction 0 (0F0): stage 0 is absent from microbatch 0\n");
  program.absent = {{.stage = 1, .microbatch = 0}};
  EXPECT_EQ(faults(program),
            "program: stage 0 takes part in microbatch 0, but nobody that reads it does\n");
}

}  // namespace
}  // namespace cleave::schedule
