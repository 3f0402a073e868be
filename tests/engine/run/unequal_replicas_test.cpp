// Modules with different numbers of replicas have the bits of one device, in planned memory and
// with planned traffic, whatever microbatches have images.

#include "engine/run/presence_run.h"

namespace cleave::engine::presence {
namespace {

TEST(UnequalReplicas, ChangeNoBitInAnyLayout) {
  using schedule::Recompute;
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  std::vector<Layout> all;
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1", "auto"})
    for (const auto& [encoder, data] : {std::pair(4, 2), {4, 1}, {2, 1}, {1, 2}, {1, 4}, {2, 4}})
      all.push_back(unequal(encoder, data, {.schedule = schedule}));
  for (const int zero : {1, 2, 3}) {
    all.push_back(unequal(4, 2, {.zero = zero}));
    all.push_back(unequal(1, 2, {.schedule = "zb-h1", .zero = zero}));
    all.push_back(unequal(4, 1, {.zero = zero, .recompute = {Recompute::Full}}));
  }
  all.push_back(unequal(2, 4, {.recompute = {Recompute::Selective}}));
  all.push_back(unequal(2, 1, {.offload = schedule::Offload::Both}));
  all.push_back(unequal(4, 2, {.tensor = 1}));
  all.back().pipeline = 4;
  all.back().encoder_stages = 2;
  expect_bits(graph, train(compiled(graph, {}, counts())), all);
}

TEST(UnequalReplicas, ChangeNoBitOfTensorShards) {
  const Graph graph = tiny_model(&model::vlm, DType::F32);
  const std::vector<Layout> all = {{.tensor = 2},
                                   unequal(2, 1, {.tensor = 2}),
                                   unequal(1, 4, {.tensor = 2}),
                                   unequal(4, 1, {.tensor = 2, .sequence_parallel = true})};
  expect_bits(graph, train(compiled(graph, all[0], {})), all);
}

}  // namespace
}  // namespace cleave::engine::presence
