#pragma once

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave::testing {

/// Every device of a run's report used the memory and sent the bytes that were planned.
inline void expect_planned(const nlohmann::json& report) {
  for (const nlohmann::json& device : report["devices"]) {
    EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]) << device;
    EXPECT_EQ(device["sent"], device["planned_sent"]) << device;
  }
}

}  // namespace cleave::testing
