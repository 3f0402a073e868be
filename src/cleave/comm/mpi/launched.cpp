#include <cstdlib>

#include "cleave/base/check.h"
#include "cleave/comm/mpi/session.h"

namespace cleave::comm {

bool launched_by_mpi(char* (*environment)(const char*)) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD"}) {
    if (environment(name) != nullptr) return true;
  }
  // A step of several tasks without a process manager would be as many separate runs, all alike.
  const char* tasks = environment("SLURM_STEP_NUM_TASKS");
  require(tasks == nullptr || std::atoi(tasks) <= 1, "srun started ", tasks == nullptr ? "" : tasks,
          " tasks that cannot find each other; use srun --mpi=pmix");
  return false;
}

}  // namespace cleave::comm
