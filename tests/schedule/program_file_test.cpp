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
  EXPECT_EQ(order_of("zbv", shape).program, zbv);
  Program read = order_of(directory_.write("my.csv", to_torch_csv(zbv)), shape).program;
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
            " is not a plain chain of stages, as the model of a training is; write 'edges chain'");
}

TEST_F(OrderOf, RefusesWhatTheModelSaysOfAProgram) {
  const std::string size = "cleave-program 2\nstages 2\nmicrobatches 1\n";
  const std::string lists = "device 0\n0F0 0B0\ndevice 1\n1F0 1B0\n";
  const auto refused = [&](const std::string& line, const std::vector<Edge>& graph) {
    return error(size + "edges chain\n" + line + "\n" + lists,
                 {.devices = 2, .microbatches = 1, .graph = graph});
  };
  const std::vector<Edge> graphs[] = {{}, {{.from = 0, .to = 1}}};
  for (const std::string line : {"segments 2 1", "sharing state state", "gradients full full",
                                 "absent 0 0", "reads 1 0 0 F edge 0", "collects 1",
                                 "through-host 0", "tie 0 1", "budget 0 100\nbudget 1 100"}) {
    const std::string word = line.substr(0, line.find(' '));
    for (const std::vector<Edge>& graph : graphs)
      EXPECT_EQ(refused(line, graph),
                " has a line '" + word +
                    "', and an order has none: the model and the passes of a training say that; "
                    "leave it out");
  }
  EXPECT_EQ(error(size + "edge 0 1 forward-only\n" + lists,
                  {.devices = 2, .microbatches = 1, .graph = graphs[1]}),
            " has an edge that is forward-only, and which gradients flow follows from what a "
            "training trains; leave the word out");
}

TEST_F(OrderOf, RefusesAFileThatWasChangedAfterItsHash) {
  const PipelineShape shape{.devices = 1, .microbatches = 2};
  std::string text = to_text(generate("gpipe", shape));
  const std::string kTaken = "(no UserError was thrown)";
  EXPECT_EQ(error(text, shape), kTaken);

  text.replace(text.find("0B0 0B1"), 7, "0B0  0B1");
  EXPECT_EQ(error(text, shape), kTaken) << "blanks say nothing";
  text.replace(text.find("0F0 0F1"), 7, "0F1 0F0");
  EXPECT_EQ(error(text, shape),
            " was changed after its hash was written; remove the line 'hash ...' if that was on "
            "purpose");
}

TEST_F(OrderOf, SaysWhetherBackwardsChangedPlaces) {
  const PipelineShape shape{.devices = 1, .microbatches = 2};
  EXPECT_FALSE(order_of("gpipe", shape).reordered);
  EXPECT_FALSE(order_of(directory_.write("a.csv", "0F0,0F1,0B0,0B1\n"), shape).reordered);
  EXPECT_TRUE(order_of(directory_.write("b.csv", "0F0,0F1,0B1,0B0\n"), shape).reordered);
}

}  // namespace
}  // namespace cleave::schedule
