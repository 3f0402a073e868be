#include "cleave/spec/message_slices.h"

#include <map>

#include <gtest/gtest.h>

namespace cleave {
namespace {

TEST(MessageSlices, GoToTheSameNumberWherePlacesAreEqual) {
  EXPECT_EQ(message_slices(2, 2, 100), (std::vector<MessageSlice>{{0, 0, 0, 100}, {1, 1, 0, 100}}));
  EXPECT_FALSE(gathers_slices(2, 2));
}

TEST(MessageSlices, AreAsTheCommentDrawsThem) {
  EXPECT_EQ(message_slices(2, 1, 256),
            (std::vector<MessageSlice>{{0, 0, 0, 128}, {1, 0, 128, 256}}));
  EXPECT_EQ(message_slices(1, 2, 256),
            (std::vector<MessageSlice>{{0, 0, 0, 128}, {0, 1, 128, 256}}));
  EXPECT_FALSE(gathers_slices(2, 1));
  EXPECT_TRUE(gathers_slices(1, 2));
  EXPECT_EQ(slice_borders(1, 2, 256), (std::vector<std::size_t>{0, 128, 256}));
}

TEST(MessageSlices, CoverEveryByteOnceAndNoPairTwice) {
  for (int senders = 1; senders <= 8; ++senders) {
    for (int receivers = 1; receivers <= 8; ++receivers) {
      if (senders == receivers) continue;
      for (const std::int64_t bytes : {0, 4, 64, 100, 640, 4096, 12345}) {
        const auto slices = message_slices(senders, receivers, bytes);
        const auto borders = slice_borders(senders, receivers, bytes);
        std::map<std::pair<int, int>, int> pairs;
        std::int64_t at = 0;
        for (const MessageSlice& slice : slices) {
          EXPECT_EQ(slice.begin, at);
          EXPECT_GE(slice.begin, static_cast<std::int64_t>(borders[slice.receiver]));
          EXPECT_LE(slice.end, static_cast<std::int64_t>(borders[slice.receiver + 1]));
          EXPECT_EQ((++pairs[{slice.sender, slice.receiver}]), 1);
          EXPECT_LT(slice.sender, senders);
          EXPECT_LT(slice.receiver, receivers);
          at = slice.end;
        }
        EXPECT_EQ(at, bytes);
        EXPECT_EQ(static_cast<std::int64_t>(borders.back()), bytes);
      }
    }
  }
}

}  // namespace
}  // namespace cleave
