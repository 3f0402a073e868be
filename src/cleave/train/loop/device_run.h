#pragma once

#include "cleave/train/loop/job.h"

namespace cleave::train {

/// One device's part of a run, from its first state to the report that all devices share.
RunReport run_device(const Job& job, comm::Communicator& world);

}  // namespace cleave::train
