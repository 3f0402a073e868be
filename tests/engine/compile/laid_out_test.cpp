#include "cleave/engine/compile/laid_out.h"

#include "support/errors.h"
#include <gtest/gtest.h>

namespace cleave::engine {
namespace {

// 1024 stages in a row, of which every microbatch goes through all.
TEST(LayOut, RefusesMoreMessagesThanCanBeToldApart) {
  EXPECT_NO_THROW(check_message_count(1023, 1, 2048));
  EXPECT_EQ(testing::user_error([] { check_message_count(1023, 1, 4096); }),
            "a step of 4096 microbatches on 1 replicas along 1023 edges between stages has 8380416 "
            "messages to be told apart, and at most 4194302 can be; take larger microbatches "
            "(train.microbatch) or fewer stages");
  EXPECT_THROW(check_message_count(1 << 20, 1 << 20, 1 << 10), UserError);
}

}  // namespace
}  // namespace cleave::engine
