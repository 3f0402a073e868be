#include "cleave/spec/graph.h"

#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/spec/layers.h"

namespace cleave {
namespace {

using testing::user_error;

/// An embedding, one activation, a head.
Graph small() {
  const spec::Flow flow{.sequences = 1, .sequence = 4};
  Graph graph;
  graph.inputs = {{"tokens", {"tokens", DType::I32, {4}}, 5},
                  {"targets", {"targets", DType::I32, {4}}, 5}};
  graph.segments = {
      {"embedding",
       {spec::embedding("embedding", flow, {.vocabulary = 5, .features = 8, .token_name = "t"})}},
      {"block", {spec::gelu("act", flow, 8)}, true},
      {"head", {spec::loss("head", flow, {.vocabulary = 5, .features = 8, .weight_name = "w"})}}};
  graph.edges = {{{Graph::kData, "tokens"}, {0, "x"}}, {{Graph::kData, "targets"}, {2, "targets"}}};
  join_in_order(graph);
  graph.results = {{"losses", {2, "y"}}};
  return graph;
}

TEST(Graph, SaysWhereSegmentsAreJoined) {
  const Graph graph = small();
  check(graph);
  EXPECT_FALSE(x_arrives(graph, 0));
  EXPECT_TRUE(x_arrives(graph, 1));
  EXPECT_TRUE(y_leaves(graph, 1));
  EXPECT_FALSE(y_leaves(graph, 2));
  EXPECT_EQ(*input_at(graph, 2, "targets"), "targets");
  EXPECT_EQ(input_at(graph, 1, "x"), nullptr);
  EXPECT_EQ(block_count(graph), 1);
  EXPECT_EQ(loss_count(graph), 4);
}

TEST(Graph, SaysWhatIsWrongWithIt) {
  const auto refused = [](auto change) {
    Graph graph = small();
    change(graph);
    return user_error([&] { check(graph); });
  };
  EXPECT_EQ(refused([](Graph& g) { g.edges.pop_back(); }),
            "0 edges lead to port \"x\" of segment \"head\"; give it exactly one");
  EXPECT_EQ(refused([](Graph& g) { g.edges.push_back(g.edges[1]); }),
            "2 edges lead to port \"targets\" of segment \"head\"; give it exactly one");
  EXPECT_EQ(refused([](Graph& g) { g.edges[1].from.name = "labels"; }),
            "the graph has no input \"labels\"; add it to its inputs");
  EXPECT_EQ(refused([](Graph& g) { g.inputs[1].tensor.shape = {3}; }),
            "input \"targets\" is i32 [3], but port \"targets\" of segment \"head\" reads i32 [4]");
  EXPECT_EQ(
      refused([](Graph& g) { g.edges[3].from.segment = 0; }),
      "port \"y\" of segment \"block\" is neither read nor a result; it must be one of the two");
  EXPECT_EQ(refused([](Graph& g) { g.edges[2].from.segment = 1; }),
            "port \"x\" of segment \"block\" reads port \"y\" of segment \"block\", which does not "
            "come before it; write segments in an order in which data flows forward");
  EXPECT_EQ(refused([](Graph& g) { g.segments[1].layers[0].skip = 0; }),
            "layer act adds the x of layer 0 of its segment, which does not come before it");
  EXPECT_EQ(refused([](Graph& g) { g.segments[2].layers[0].parameters[0].tied_to = "u"; }),
            "parameter w is tied to u, and no layer before it has that");
  EXPECT_EQ(
      refused([](Graph& g) { g.results.clear(); }),
      "port \"y\" of segment \"head\" is neither read nor a result; it must be one of the two");
  EXPECT_EQ(refused([](Graph& g) { g.segments[0].block = true; }),
            "segment \"embedding\" reads the data or gives a result, so it cannot be one of the "
            "model's blocks");
}

std::string refused_edge(Graph::Port from, Graph::Port to) {
  Graph graph = small();
  graph.edges.push_back({std::move(from), std::move(to)});
  return user_error([&] { check(graph); });
}

TEST(Graph, RefusesEdgesToWhatNobodyReads) {
  EXPECT_EQ(refused_edge({0, "y"}, {2, "extra"}),
            "an edge leads from port \"y\" of segment \"embedding\" to port \"extra\" of segment "
            "\"head\", which no layer reads; leave the edge out, or name the port in "
            "LayerSpec::reads");
  EXPECT_EQ(
      refused_edge({Graph::kData, "tokens"}, {99, "x"}),
      "an edge leads from input \"tokens\" to port \"x\" of segment 99, which no layer reads; "
      "leave the edge out, or name the port in LayerSpec::reads");
  EXPECT_EQ(refused_edge({0, "y"}, {Graph::kData, "tokens"}),
            "an edge leads from port \"y\" of segment \"embedding\" to input \"tokens\", which no "
            "layer reads; leave the edge out, or name the port in LayerSpec::reads");
}

TEST(Graph, RefusesResultsThatTheDataGives) {
  Graph graph = small();
  graph.inputs.push_back({"weights", {"weights", DType::F32, {4}}});
  graph.results.push_back({"weights", {Graph::kData, "weights"}});

  EXPECT_EQ(user_error([&] { check(graph); }),
            "result \"weights\" is input \"weights\"; results are what segments write");
}

TEST(Graph, RefusesToAddTensorsOfAnotherFormat) {
  Graph graph = small();
  LayerSpec last = graph.segments[1].layers[0];
  last.name = "sum";
  last.skip = 0;
  graph.segments[1].layers[0].y.dtype = last.x.dtype = last.y.dtype = DType::BF16;
  graph.segments[1].layers.push_back(last);

  EXPECT_EQ(user_error([&] { check(graph); }),
            "layer sum adds act's x, which is f32 [4, 8], to bf16 [4, 8]");
}

TEST(Graph, RefusesTiesOfAnotherShape) {
  Graph graph = small();
  ParameterSpec& weight = graph.segments[2].layers[0].parameters[0];
  weight.tied_to = "t";
  EXPECT_NO_THROW(check(graph));
  weight.shape = {8, 5};

  EXPECT_EQ(user_error([&] { check(graph); }),
            "parameter w is [8, 5] and tied to t, which is [5, 8]; parameters that share their "
            "values have one shape");
}

}  // namespace
}  // namespace cleave
