#pragma once

#include <string_view>

namespace cleave::ops::device {

/// The kernels of accelerators, in a language that OpenCL C, CUDA and HIP share.
std::string_view kernel_source();

}  // namespace cleave::ops::device
