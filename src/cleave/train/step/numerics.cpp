#include "cleave/train/step/numerics.h"

#include <array>
#include <optional>

#include "cleave/base/check.h"
#include "cleave/comm/together.h"

namespace cleave::train {
namespace {

/// What a processor does with products of a dtype if nobody asks it to be exact. Processors that do
/// the same have the same bits.
enum class Products { Fused, Unfused, Bf16Dot, Amx };

Products products_of(const ops::InstructionSet& set, DType dtype) {
  if (dtype == DType::BF16 && set.amx_bf16) return Products::Amx;
  if (dtype == DType::BF16 && set.bf16_dot) return Products::Bf16Dot;
  return set.fused ? Products::Fused : Products::Unfused;
}

/// True if the processors of all processes do the same.
bool is_uniform(Products products, comm::Communicator& processes) {
  const auto number = static_cast<double>(products);
  std::array<double, 2> extremes = {number, -number};
  processes.combine(extremes, comm::Combine::Max);
  return extremes[0] == -extremes[1];
}

}  // namespace

void resolve_numerics(Config& config, const ops::InstructionSet& set,
                      comm::Communicator& processes) {
  const Products products = products_of(set, config.train.dtype);
  const bool uniform = is_uniform(products, processes);
  std::optional<bool>& exact = config.numerics.exact;
  const bool given = exact.has_value();
  if (!given) exact = !uniform || products == Products::Fused || config.devices.accelerated();
  const std::string device =
      processes.size() == 1 ? "" : detail::concat(" of device ", processes.rank());
  const char* remedy =
      given ? "numerics.exact = true needs; set it to false, or leave it out, and accept bits of "
              "its own"
            : "devices with different processors need; set numerics.exact to false and accept "
              "that bits depend on who computes what";
  comm::together(processes, [&] {
    require(!*exact || set.fused, "the processor", device,
            " has no fused multiply-add (its instruction set is ", set.simd, "), which ", remedy);
  });
}

ops::Arithmetic arithmetic_of(const Config& config) {
  if (!config.numerics.exact) return ops::instruction_set().cheapest(config.train.dtype);
  return *config.numerics.exact ? ops::Arithmetic::Exact : ops::Arithmetic::Fastest;
}

std::string describe_bits(ops::Arithmetic arithmetic, DType dtype, const ops::InstructionSet& set) {
  const Products products = products_of(set, dtype);
  if (arithmetic == ops::Arithmetic::Exact || products == Products::Fused)
    return "exact: those of every processor with fused multiply-add";
  if (products == Products::Amx) return "those of AMX, with this many threads";
  if (products == Products::Bf16Dot) return "those of AVX-512-BF16";
  return "those of " + set.simd;
}

}  // namespace cleave::train
