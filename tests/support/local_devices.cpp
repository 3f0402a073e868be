#include "support/devices.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"

void cleave::testing::on_devices(const std::function<void(comm::Communicator&)>& work) {
  for (const int devices : {1, 2, 3, 4, 8}) {
    SCOPED_TRACE(devices);
    comm::run_devices(devices, work);
  }
}
