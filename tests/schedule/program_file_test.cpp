#include "cleave/schedule/program_file.h"

#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/schedule/microbatch_order.h"
#include "cleave/schedule/text.h"
#include "cleave/schedule/torch_csv.h"
#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

/// As torch's LoopedBFS has it: the backwards of a stage from the last microbatch to the first.
Program looped_bfs_of_torch(const PipelineShape& shape) {
  Program program = generate("looped-bfs", shape);
  for (auto& list : program.lists)
    for (Instruction& i : list)
      if (i.op == Op::Backward) i.microbatch = shape.microbatches - 1 - i.microbatch;
  return program;
}

TEST(MicrobatchOrder, IsGivenToLoopedBfsOfTorch) {
  const PipelineShape shape{.devices = 3, .microbatches = 5, .chunks = 2};
  Program program = looped_bfs_of_torch(shape);
  EXPECT_FALSE(verify_compute(program).empty());

  EXPECT_TRUE(sort_backwards(program));
  EXPECT_EQ(program, generate("looped-bfs", shape));
  EXPECT_FALSE(sort_backwards(program)) << "it is sorted";
}

TEST(MicrobatchOrder, LeavesInputGradientsAloneWhereSumsAreInOrder) {
  Program program = parse_torch_csv("0F0,0F1,0I1,0I0,0W0,0W1\n");
  EXPECT_FALSE(sort_backwards(program));
  EXPECT_EQ(to_torch_csv(program), "0F0,0F1,0I1,0I0,0W0,0W1\n");
}

TEST(MicrobatchOrder, IsLeftToTheVerifierWhereItCannotBe) {
  const std::string text = "0F1,0B1,0F0,0B0\n";
  Program program = parse_torch_csv(text);
  EXPECT_FALSE(sort_backwards(program)) << "B0 would come before F0";
  EXPECT_EQ(to_torch_csv(program), text);
}

TEST(ProgramFile, IsReadInEitherFormAndSaysWhatItChanged) {
  const Program program = generate("1f1b", {.devices = 2, .microbatches = 3});
  const ProgramFile text = parse_program_file("a.txt", "# mine\n" + to_text(program));
  EXPECT_EQ(text.program, program);
  EXPECT_FALSE(text.reordered);
  EXPECT_EQ(to_torch_csv(parse_program_file("a.csv", to_torch_csv(program)).program),
            to_torch_csv(program));
  EXPECT_TRUE(parse_program_file("a.csv", "0F0,0F1,0B1,0B0\n").reordered);
  EXPECT_EQ(testing::user_error([] { parse_program_file("a.csv", "0F0,0X0\n"); }).substr(0, 11),
            "a.csv:1:5: ");
}

TEST(ProgramFile, IsTheTextFormWhateverBlanksItsFirstLinesHave) {
  const Program program = generate("1f1b", {.devices = 2, .microbatches = 3});
  for (const std::string before : {"\r\n", "  ", "\t", " # mine\r\n \r\n"})
    EXPECT_EQ(parse_program_file("a.txt", before + to_text(program)).program, program) << before;
}

TEST(ProgramFile, HasADotOrASlash) {
  EXPECT_TRUE(names_file("my.csv"));
  EXPECT_TRUE(names_file("./mine"));
  EXPECT_FALSE(names_file("1f1b"));
  EXPECT_FALSE(names_file("nothing"));
}

class OrderOf : public ::testing::Test {
 protected:
  std::string error(const std::string& text, const PipelineShape& shape) {
    const std::string path = directory_.write("my.csv", text);
    const std::string said = testing::user_error([&] { order_of(path, shape); });
    return said.starts_with(path) ? said.substr(path.size()) : said;
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(OrderOf, IsTheScheduleOrTheFile) {
  const PipelineShape shape{.devices = 2, .microbatches = 4};
  const Program zbv = generate("zbv", shape);
  EXPECT_EQ(order_of("zbv", shape), zbv);
  Program read = order_of(directory_.write("my.csv", to_torch_csv(zbv)), shape);
  read.schedule = "zbv";
  EXPECT_EQ(read, zbv);
}

TEST_F(OrderOf, RefusesWhatIsForAnotherRun) {
  const std::string two = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
  EXPECT_EQ(error(two, {.devices = 4, .microbatches = 2}),
            " is for 2 devices, but parallel.pipeline is 4; make them equal");
  EXPECT_EQ(error(two, {.devices = 2, .microbatches = 8}),
            " is for 2 microbatches, but each replica has 8 of them; change train.batch or "
            "train.microbatch");
  EXPECT_EQ(error(two, {.devices = 2, .microbatches = 2, .chunks = 2}),
            " has 2 stages on 2 devices, but parallel.chunks is 2; leave it out");
  EXPECT_EQ(error("0F0,0B0\n1B0,1F0\n", {.devices = 2, .microbatches = 1}),
            ": device 1, instruction 0 (1B0): runs before its forward is done");
  EXPECT_EQ(testing::user_error([] { order_of("none.csv", {}); }).substr(0, 20),
            "cannot read none.csv");
}

TEST_F(OrderOf, RefusesWhatATrainingAddsItself) {
  const std::string head = "cleave-program 2\nstages 2\nmicrobatches 1\n";
  const PipelineShape shape{.devices = 2, .microbatches = 1};
  EXPECT_EQ(error(head + "edges chain\ndevice 0\n0F0 0R0 0B0\ndevice 1\n1F0 1B0\n", shape),
            " has 0R0, and a training takes F, I, W and B of whole stages and adds the rest; leave "
            "it out");
  EXPECT_EQ(error(head + "device 0\n0F0 0B0\ndevice 1\n1F0 1B0\n", shape),
            " is not a plain chain of stages, as the model of a training is; write 'edges chain', "
            "and no ties, absences, gradient kinds or buffers");
}

}  // namespace
}  // namespace cleave::schedule
