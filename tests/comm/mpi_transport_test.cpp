#include "cleave/comm/mpi/mpi_transport.h"

#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "comm/pattern.h"
#include "support/devices.h"
#include "support/errors.h"
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "cleave/base/check.h"
#include "cleave/comm/mpi/session.h"

namespace cleave::comm {
namespace {

using namespace std::chrono_literals;
using testing::on_devices;

TEST(MpiTransport, LargeMessagesTravelInPieces) {
  on_devices([](Communicator& world) {
    if (world.size() == 1) return;
    const auto transport = make_mpi_transport({}, /*largest_piece=*/1000);
    Communicator comm(*transport);
    std::mt19937 random(5);
    testing::play(comm, testing::random_pattern(comm.size(), random), 5);
  });
}

TEST(MpiTransport, RefusesMessagesWhoseSizesDiffer) {
  on_devices([](Communicator& comm) {
    if (comm.size() == 1 || comm.rank() >= 2) return;
    std::vector<std::byte> bytes(9);
    if (comm.rank() == 0) {
      comm.send(std::span(bytes).first(8), 1, 0).wait();
    } else {
      Pending pending = comm.receive(bytes, 0, 0);
      EXPECT_THROW(pending.wait(), InternalError);
    }
  });
}

TEST(MpiTransport, WaitingLeavesTheCoreToOthers) {
  on_devices([](Communicator& comm) {
    if (comm.size() == 1 || comm.rank() >= 2) return;
    if (comm.rank() == 0) {
      std::this_thread::sleep_for(500ms);
      comm.send({}, 1, 0).wait();
      return;
    }
    const auto busy = [] {
      rusage usage{};
      getrusage(RUSAGE_THREAD, &usage);
      return 1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) +
             static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
    };
    const double before = busy();
    comm.receive({}, 0, 0).wait();
    EXPECT_LT(busy() - before, 0.25);  // a spinning wait takes all of the 0.5 s
  });
}

std::map<std::string, std::string> variables;

char* lookup(const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : found->second.data();
}

TEST(LaunchedByMpi, AsksTheEnvironment) {
  EXPECT_TRUE(launched_by_mpi());

  variables = {};
  EXPECT_FALSE(launched_by_mpi(lookup));
  variables = {{"PMIX_RANK", "0"}};
  EXPECT_TRUE(launched_by_mpi(lookup));
  variables = {{"SLURM_PROCID", "0"}};  // a batch script, not a step
  EXPECT_FALSE(launched_by_mpi(lookup));
  variables = {{"SLURM_STEP_NUM_TASKS", "4"}};
  EXPECT_EQ(testing::user_error([] { launched_by_mpi(lookup); }),
            "srun started 4 tasks that cannot find each other; use srun --mpi=pmix");
}

}  // namespace
}  // namespace cleave::comm
