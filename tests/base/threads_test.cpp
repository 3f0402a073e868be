#include "cleave/base/threads.h"

#include <atomic>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace cleave {
namespace {

TEST(RunOnThreads, CallsEveryPartOnceOnAThreadOfItsOwn) {
  std::vector<std::thread::id> ids(4);
  run_on_threads(4, [&](int thread) { ids[thread] = std::this_thread::get_id(); });

  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_EQ(std::set<std::thread::id>(ids.begin(), ids.end()).size(), 4u);
}

TEST(RunOnThreads, ThrowsWhatTheFirstHasThrownOnceAllHaveEnded) {
  std::atomic<int> ended = 0;
  std::string what;
  try {
    run_on_threads(4, [&](int thread) {
      ++ended;
      if (thread >= 2) throw std::runtime_error(std::to_string(thread));
    });
  } catch (const std::runtime_error& error) {
    what = error.what();
  }
  EXPECT_EQ(what, "2");
  EXPECT_EQ(ended, 4);
}

}  // namespace
}  // namespace cleave
