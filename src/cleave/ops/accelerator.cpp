#include "cleave/ops/accelerator.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "cleave/base/check.h"
#include "cleave/ops/compute.h"

namespace cleave::ops {
namespace {

constexpr std::string_view kCpu = "cpu";
constexpr std::string_view kOpencl = "opencl";

/// The N of "opencl:N".
std::optional<std::size_t> number_in(std::string_view kind) {
  if (!kind.starts_with(kOpencl) || kind.size() < kOpencl.size() + 2 || kind[kOpencl.size()] != ':')
    return std::nullopt;
  const std::string_view digits = kind.substr(kOpencl.size() + 1);
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  if (error != std::errc() || end != digits.end() || number > 4095) return std::nullopt;
  return number;
}

std::string names_of(const Accelerators& found) {
  std::string names;
  for (const AcceleratorInfo& info : found.all)
    names += detail::concat(names.empty() ? "" : ", ", info.kind, " (", info.name, ")");
  return names;
}

}  // namespace

void require_processor(const Compute& compute, std::string_view what) {
  require(compute.accelerator() == nullptr, "accelerators have no kernel for ", what,
          "; leave devices.kind out, or set it to \"cpu\"");
}

const AcceleratorInfo* choose_accelerator(const Accelerators& found, std::string_view kind,
                                          int index) {
  if (kind == kCpu || kind.empty()) return nullptr;
  require(!found.all.empty(), "devices.kind asks for \"", kind, "\", but ", found.problem);
  const std::size_t number =
      number_in(kind).value_or(static_cast<std::size_t>(index) % found.all.size());
  require(number < found.all.size(), "devices.kind asks for \"", kind, "\", but there ",
          found.all.size() == 1 ? "is only " : "are only ", names_of(found),
          "; `cleave doctor` lists them");
  const AcceleratorInfo& info = found.all[number];
  require(info.problem.empty(), "devices.kind asks for ", info.kind, " (", info.name,
          "), which cannot give the bits of other devices: ", info.problem,
          "; choose another device");
  return &info;
}

}  // namespace cleave::ops
