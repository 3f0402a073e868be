#include <cstdio>
#include <cstdlib>
#include <memory>

#include "support/devices.h"
#include <gtest/gtest.h>

#include "cleave/comm/mpi/session.h"

namespace {

cleave::comm::Communicator* world = nullptr;

// Rank 0 reports as usual; of the others one only wants to hear what went wrong.
class FailuresOnly : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", world->rank(), result.file_name(),
                 result.line_number(), result.message());
  }
};

}  // namespace

void cleave::testing::on_devices(const std::function<void(comm::Communicator&)>& work) {
  work(*world);
}

// Runs the tests on every rank; mpirun fails if any rank does. A wrong number of ranks is a
// failure, not a skip: a test that quietly does not run is worse than none.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  cleave::comm::MpiSession mpi;
  const auto communicator = mpi.world();
  world = communicator.get();

  const int expected = argc > 1 ? std::atoi(argv[1]) : 0;
  if (world->size() != expected) {
    std::fprintf(stderr, "expected %d ranks, got %d\n", expected, world->size());
    mpi.abort(EXIT_FAILURE);
  }
  if (world->rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly);
  }
  return RUN_ALL_TESTS();
}
