#include "cleave/plan/tune/analytic/part_cost.h"

#include <limits>

#include <gtest/gtest.h>

#include "cleave/model/presets.h"
#include "cleave/plan/tune/analytic/cluster_search.h"
#include "cleave/plan/tune/analytic/pipeline_time.h"
#include "cleave/plan/tune/analytic/stage_cost.h"
#include "cleave/plan/tune/partition.h"

namespace cleave::plan {
namespace {

Workload llava(const char* cluster, std::vector<std::string> trained) {
  return {.model = model::find_preset("llava-1.5-7b").shape,
          .sequence = 2048,
          .batch = 64,
          .cluster = parse_cluster(cluster),
          .trained = std::move(trained)};
}

TEST(Parts, PutWhatBeginsAModuleWithItsFirstBlock) {
  const Graph model = model_graph(llava("a100-80gb:16", {}), 1);
  const std::vector<std::int64_t> parts = parts_of(model);
  // 23 of the tower's 24 layers are computed; its end goes with the last of them, projector and
  // joint with the first of the language model.
  ASSERT_EQ(parts.size(), 23 + 32 + 2);
  EXPECT_EQ(parts[0], 1);
  EXPECT_EQ(parts[23], 2);
  EXPECT_EQ(parts[24], 3);
  EXPECT_EQ(parts[25], 1);
}

TEST(PartCost, CountsTheParametersOfTheModel) {
  Predictor predictor(llava("a100-80gb:1", {}));
  const Prediction all = predictor.memory({});
  // Without the layer and the norm that are saved and never computed: 2 bytes for each weight.
  const double idle = 12.0 * 1024 * 1024 + 13 * 1024 + 2 * 1024;
  EXPECT_EQ(all.devices[0].weights, 2 * (7'063'427'072.0 - idle));
}

// A frozen tower holds its weights and its output, and the projector alone has gradients.
TEST(PartCost, NothingOfGradientsIsHeldWhereNothingLearns) {
  Predictor predictor(llava("a100-80gb:4", {"projector"}));
  Layout layout{.pipeline = 4, .chunks = 1, .partition = {23, 10, 11, 11}};
  const Prediction frozen = predictor.predict(layout);
  EXPECT_EQ(frozen.devices[0].gradients + frozen.devices[0].optimizer, 0);
  EXPECT_EQ(frozen.devices[0].activations, 0);
  EXPECT_GT(frozen.devices[1].gradients, 0);
  EXPECT_EQ(frozen.devices[2].gradients + frozen.devices[3].optimizer, 0);
  EXPECT_GT(frozen.devices[2].activations, 0);
}

/// The best of all cuts into three stages, by the predictor's own measure.
double best_of_all_cuts(Predictor& predictor, Layout layout) {
  const std::int64_t blocks = predictor.workload().model.blocks();
  double best = std::numeric_limits<double>::infinity();
  for (std::int64_t a = 0; a <= blocks; ++a) {
    for (std::int64_t b = 1; a + b <= blocks; ++b) {
      layout.partition = {a, b, blocks - a - b};
      const Prediction run = predictor.predict(layout);
      if (run.fits()) best = std::min(best, run.step_seconds);
    }
  }
  return best;
}

TEST(PartCost, CutsWithinThreePercentOfTheBestOfAllCuts) {
  const std::vector<std::vector<std::string>> learning = {
      {}, {"projector"}, {"projector", "vision"}};
  for (const auto& trained : learning) {
    for (const char* schedule : {"1f1b", "gpipe"}) {
      Workload workload = llava("h100:3", trained);
      workload.batch = 24;
      workload.model.layers = 6;
      Predictor predictor(workload);
      const Layout layout{.pipeline = 3, .chunks = 1, .schedule = schedule};

      const Prediction chosen = predictor.predict(layout);

      EXPECT_TRUE(chosen.fits());
      EXPECT_LE(chosen.step_seconds, 1.03 * best_of_all_cuts(predictor, layout))
          << schedule << " " << trained.size();
    }
  }
}

TEST(PartCost, CutsGraphsWithinThreePercentOfTheBestOfAllCuts) {
  for (const char* preset : {"clip-vit-b-32", "siglip-b-16", "deepstack-tiny"}) {
    Workload workload{.model = model::find_preset(preset).shape,
                      .sequence = 64,
                      .batch = 96,
                      .cluster = parse_cluster("h100:3")};
    Predictor predictor(workload);
    const Layout layout{.pipeline = 3, .chunks = 1, .schedule = "gpipe", .microbatch = 4};

    const Prediction chosen = predictor.predict(layout);

    EXPECT_TRUE(chosen.fits());
    EXPECT_LE(chosen.step_seconds, 1.03 * best_of_all_cuts(predictor, layout)) << preset;
  }
}

// The image tower on the first device, the text tower on the others: neither waits for the other.
TEST(PartCost, LetsTowersRunBesideEachOther) {
  const Workload workload{.model = model::find_preset("clip-vit-b-32").shape,
                          .sequence = 77,
                          .batch = 96,
                          .cluster = parse_cluster("h100:3")};
  const Layout layout{
      .pipeline = 3, .chunks = 1, .schedule = "gpipe", .partition = {12, 6, 6}, .microbatch = 16};
  const std::vector<PartEdge> edges =
      stage_edges(part_edges(model_graph(workload, 1)), with_ends(layout.partition));
  const std::vector<StageCosts> stages =
      stage_times(workload, layout, part_costs(workload, layout));
  const PipelineWork beside{layout, 6, stages, edges};
  const PipelineWork in_a_row{layout, 6, stages};

  EXPECT_EQ(edges, (std::vector<PartEdge>{{0, 2}, {1, 2}}));
  EXPECT_LT(pipeline_seconds(beside), pipeline_seconds(in_a_row));
  EXPECT_LE(pipeline_bound(beside), pipeline_seconds(beside));

  // Of equal stages the last waits for one before it, not for two.
  const std::vector<StageCosts> equal(3, {.forward = 1, .input = 1, .weight = 1});
  EXPECT_EQ(pipeline_bound({layout, 6, equal, edges}), 1 + 6 * 3 + 2);
  EXPECT_EQ(pipeline_bound({layout, 6, equal}), 2 + 6 * 3 + 4);
}

TEST(PartCost, TheSearchFindsNothingWorseThanAnyDivision) {
  const Workload workload = llava("a100-80gb:8", {"projector", "language"});
  const SearchResult found = search_layouts(workload);
  ASSERT_FALSE(found.fitting.empty());
  Predictor predictor(workload);
  const LayoutSpace space = space_of(workload);
  double best = std::numeric_limits<double>::infinity();
  for (const Layout& layout : layouts(space)) {
    for (const Layout& variant : savings(space, layout)) {
      const Prediction run = predictor.predict(variant);
      if (run.fits()) best = std::min(best, run.step_seconds);
    }
  }
  EXPECT_LE(found.fitting.front().step_seconds, 1.03 * best);
}

}  // namespace
}  // namespace cleave::plan
