#include <string>

#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/ops/accelerator.h"

namespace cleave::ops {
namespace {

TEST(DeviceKind, IsRefusedWithWhatThereIs) {
  const auto message = [](const Accelerators& found, const char* kind) {
    try {
      choose_accelerator(found, kind, 0);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message({.all = {}, .problem = "there is none"}, "opencl"),
            "devices.kind asks for \"opencl\", but there is none");
  Accelerators two;
  two.all = {{.kind = "opencl:0", .name = "A"},
             {.kind = "opencl:1", .name = "B", .problem = "it is odd"}};
  EXPECT_EQ(message(two, "opencl:2"),
            "devices.kind asks for \"opencl:2\", but there are only opencl:0 (A), opencl:1 (B); "
            "`cleave doctor` lists them");
  EXPECT_EQ(
      message(two, "opencl:1"),
      "devices.kind asks for opencl:1 (B), which cannot give the bits of other devices: it is "
      "odd; choose another device");
  EXPECT_EQ(choose_accelerator(two, "cpu", 0), nullptr);
  EXPECT_EQ(choose_accelerator(two, "opencl", 2), &two.all[0]);
}

}  // namespace
}  // namespace cleave::ops
