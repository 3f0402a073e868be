// Which bits a run has, told and kept.

#include <cstdlib>

#include "app/tiny_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using testing::Answer;
using testing::TinyRun;

/// As on a processor that has no more than `level`.
class Lowered {
 public:
  explicit Lowered(const char* level) { ::setenv("CLEAVE_ISA", level, 1); }
  ~Lowered() { ::unsetenv("CLEAVE_ISA"); }
  Lowered(const Lowered&) = delete;
  Lowered& operator=(const Lowered&) = delete;
};

TEST(TrainNumerics, AreTheSameBitsOneLaneAtATime) {
  const TinyRun run({"train.steps=3", "train.dtype=bf16", "numerics.exact=true"});
  const auto native = run.report();
  const Lowered lowered("scalar");
  const auto scalar = run.report({}, {"--overwrite"});

  EXPECT_EQ(scalar["weights"], native["weights"]);
  EXPECT_EQ(scalar["exact"], true);
}

TEST(TrainNumerics, WithoutFusedMultiplyAddAreRefusedAsExactAndSaidToBeTheirOwn) {
#if defined(__x86_64__)
  const TinyRun run({"train.steps=1"});
  const Lowered lowered("sse4");

  const Answer refused = run.train({"numerics.exact=true"});
  EXPECT_EQ(refused.exit, 2);
  EXPECT_EQ(refused.err,
            "cleave: the processor has no fused multiply-add (its instruction set is SSE4), which "
            "numerics.exact = true needs; set it to false, or leave it out, and accept bits of its "
            "own\n");

  const Answer own = run.train();
  EXPECT_EQ(own.exit, 0) << own.err;
  EXPECT_NE(own.out.find("\nbits those of SSE4\n"), std::string::npos) << own.out;
#endif
}

TEST(TrainNumerics, AreSavedAsTheyWereSettled) {
  const TinyRun run({"train.steps=1"});
  const Answer answer = run.train();
  EXPECT_EQ(answer.exit, 0) << answer.err;
  const std::string said = "\nbits exact: those of every processor with fused multiply-add\n";
  EXPECT_NE(answer.out.find(said), std::string::npos) << answer.out;

  const Answer changed = run.train({"train.steps=2", "numerics.exact=false"}, {"--resume"});
  EXPECT_EQ(changed.exit, 0) << changed.err;
  EXPECT_NE(changed.out.find("numerics.exact false (was true)"), std::string::npos) << changed.out;
}

}  // namespace
}  // namespace cleave
