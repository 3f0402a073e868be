#include "cleave/spec/mesh.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace cleave {
namespace {

TEST(Mesh, TakesTheLastAxisForNeighbours) {
  const Mesh mesh{.data = 2, .pipeline = 3, .tensor = 2};
  EXPECT_EQ(mesh.group_at(0), std::vector({0, 1}));
  EXPECT_EQ(mesh.group_at(4), std::vector({8, 9}));  // replica 1, stage 1
  EXPECT_EQ(mesh.peers_of(1), std::vector({1, 3, 5, 7, 9, 11}));
}

//                       device:  0 1 2 3 4 5 6 7 8 9 10 11
// tensor, then data, then stage: the members of a tensor group are six apart.
TEST(Mesh, TakesAnyOrder) {
  const Mesh mesh{
      .data = 2, .pipeline = 3, .tensor = 2, .order = {Axis::Tensor, Axis::Data, Axis::Pipeline}};
  EXPECT_EQ(mesh.group_at(0), std::vector({0, 6}));
  EXPECT_EQ(mesh.group_at(4), std::vector({4, 10}));
  EXPECT_EQ(mesh.peers_of(1), std::vector({6, 7, 8, 9, 10, 11}));
}

TEST(Mesh, PutsEveryDeviceInOnePlaceInEveryOrder) {
  Mesh mesh{.data = 3, .pipeline = 4, .tensor = 2};
  do {
    for (int device = 0; device < mesh.devices(); ++device)
      EXPECT_EQ(mesh.device_at(PlaceId{mesh.place_of(device)}, mesh.number_of(device)), device);
    EXPECT_EQ(mesh.device_at(PlaceId{0}, 0), 0);
  } while (std::ranges::next_permutation(mesh.order).found);
}

TEST(Mesh, CountsThePlacesOfAPipelineFromItsEndIfAsked) {
  const Mesh mesh{.data = 2, .pipeline = 3, .last_first = true};
  EXPECT_EQ(mesh.peers_of(0), std::vector({2, 1, 0, 5, 4, 3}));
  for (int device = 0; device < mesh.devices(); ++device)
    EXPECT_EQ(mesh.device_at(PlaceId{mesh.place_of(device)}, 0), device);
}

//            place:  0  1  2 |  3  4  5
// devices of replica:  0 1-2 3-4 | 5 6-7 8-9
TEST(Mesh, CountsThroughPlacesThatDifferInSize) {
  const Mesh mesh{.data = 2, .pipeline = 3, .tensor = 2, .degrees = {1, 2, 2}};
  EXPECT_EQ(mesh.devices(), 10);
  EXPECT_EQ(mesh.most_at_a_place(), 2);
  EXPECT_EQ(mesh.group_at(3), std::vector({5}));
  EXPECT_EQ(mesh.group_at(4), std::vector({6, 7}));
  EXPECT_EQ(mesh.peers_of(0), std::vector({0, 1, 3, 5, 6, 8}));
  EXPECT_EQ(mesh.peers_of(1), std::vector({2, 4, 7, 9}));
  for (int device = 0; device < mesh.devices(); ++device)
    EXPECT_EQ(mesh.device_at(PlaceId{mesh.place_of(device)}, mesh.number_of(device)), device);
}

TEST(Mesh, ReadsAndWritesItsOrder) {
  const AxisOrder order = {Axis::Pipeline, Axis::Tensor, Axis::Data};
  EXPECT_EQ(to_string(order), "pipeline,tensor,data");
  EXPECT_EQ(parse_axis_order("pipeline,tensor,data"), order);
  for (const char* text : {"", "data", "data,pipeline", "data,pipeline,pipeline", "data,pipeline,",
                           "data,pipeline,tensor,data", "data, pipeline, tensor"})
    EXPECT_EQ(parse_axis_order(text), std::nullopt) << text;
}

}  // namespace
}  // namespace cleave
