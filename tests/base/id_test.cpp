#include "cleave/base/id.h"

#include <sstream>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace cleave {
namespace {

// A function as there are many: two numbers side by side.
constexpr int place_in(StageId stage, SegmentId segment) {
  return 10 * stage + segment;
}
using PlaceIn = decltype(place_in);

static_assert(std::is_invocable_v<PlaceIn, StageId, SegmentId>);
static_assert(!std::is_invocable_v<PlaceIn, SegmentId, StageId>, "swapped ids do not compile");
static_assert(!std::is_invocable_v<PlaceIn, int, SegmentId>, "a loose int is named");
static_assert(!std::is_invocable_v<PlaceIn, StageId, int>);

static_assert(std::is_convertible_v<StageId, int>);
static_assert(std::is_constructible_v<StageId, int> && !std::is_convertible_v<int, StageId>);
static_assert(!std::is_constructible_v<StageId, SegmentId>, "not even written out");
static_assert(!std::is_assignable_v<StageId&, SegmentId> && !std::is_assignable_v<StageId&, int>);

template <class A, class B>
concept Comparable = requires(A a, B b) {
  a == b;
};
template <class A, class B>
concept Ordered = requires(A a, B b) {
  a < b;
};
static_assert(Comparable<StageId, StageId> && Ordered<StageId, StageId>);
static_assert(Comparable<StageId, int> && Ordered<int, StageId>);
static_assert(!Comparable<StageId, SegmentId> && !Ordered<StageId, SegmentId>);

template <class... Ids>
constexpr bool all_differ() {
  const auto unlike_others = []<class One>(One*) {
    return ((std::is_same_v<One, Ids> || !std::is_constructible_v<One, Ids>)&&...);
  };
  return (unlike_others(static_cast<Ids*>(nullptr)) && ...);
}
static_assert(all_differ<DeviceId, PlaceId, StageId, SegmentId, MicrobatchId, ReplicaId>());

static_assert(sizeof(StageId) == sizeof(int) && std::is_trivially_copyable_v<StageId>);

TEST(Id, IndexesCountsAndPrintsAsAnInt) {
  const std::vector<int> doubled = {0, 2, 4};
  std::ostringstream text;

  for (StageId stage{0}; stage < std::ssize(doubled); ++stage) {
    EXPECT_EQ(doubled[stage], 2 * stage);
    text << stage << ' ';
  }

  EXPECT_EQ(text.str(), "0 1 2 ");
  EXPECT_EQ(place_in(StageId{3}, SegmentId{4}), 34);
}

}  // namespace
}  // namespace cleave
