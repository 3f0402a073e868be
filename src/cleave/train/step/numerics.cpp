#include "cleave/train/step/numerics.h"

#include <array>
#include <optional>
#include <set>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"
#include "cleave/comm/together.h"
#include "cleave/ops/accelerator.h"
#include "cleave/ops/product_library.h"

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

/// True if all processes say the same.
bool is_uniform(double number, comm::Communicator& processes) {
  std::array<double, 2> extremes = {number, -number};
  processes.combine(extremes, comm::Combine::Max);
  return extremes[0] == -extremes[1];
}

/// What the accelerators of this process are, each sort once.
std::set<std::string> sorts_of_accelerators(const Config& config, comm::Communicator& processes) {
  const ops::Accelerators found = ops::find_accelerators();
  const bool own = processes.size() > 1;
  const int first = own ? processes.rank() : 0;
  const int end = own ? first + 1 : static_cast<int>(config.devices.count);
  std::set<std::string> sorts;
  for (int device = first; device < end; ++device) {
    const auto at = config.devices.kind.size() == 1 ? 0 : static_cast<std::size_t>(device);
    if (const auto* info = ops::choose_accelerator(found, config.devices.kind.at(at), device))
      sorts.insert(detail::concat(info->name, ", ", info->platform));
  }
  return sorts;
}

/// A library rounds as it likes, and otherwise on another sort of device.
void check_library(const Config& config, comm::Communicator& processes) {
  std::set<std::string> sorts;
  comm::together(processes, [&] {
    require(!ops::product_library().empty(),
            "numerics.exact is false and devices.kind has accelerators, but this cleave was built "
            "without CLBlast; install libclblast-dev and build anew, or leave numerics.exact out");
    sorts = sorts_of_accelerators(config, processes);
  });
  Hasher hasher;
  std::string all;
  for (const std::string& sort : sorts) {
    hasher.add(sort);
    all += (all.empty() ? "" : "; ") + sort;
  }
  const bool alike = is_uniform(static_cast<double>(hasher.digest() >> 12), processes);
  require(sorts.size() == 1 && alike, "numerics.exact is false, but ",
          sorts.size() == 1 ? "not all accelerators are " : "accelerators are of several sorts (",
          all, sorts.size() == 1 ? "" : ")",
          ", and so bits would depend on who computes what; leave numerics.exact out, or choose "
          "devices that are alike");
}

}  // namespace

void resolve_numerics(Config& config, const ops::InstructionSet& set,
                      comm::Communicator& processes) {
  const Products products = products_of(set, config.train.dtype);
  const bool cheap = set.cheapest(config.train.dtype) == ops::Arithmetic::Exact;
  // Neither question may be left out by one process alone.
  const bool uniform = is_uniform(static_cast<double>(products), processes) &
                       is_uniform(static_cast<double>(cheap), processes);
  std::optional<bool>& exact = config.numerics.exact;
  const bool given = exact.has_value();
  if (!given) exact = !uniform || cheap || config.devices.accelerated();
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
  if (!*exact && config.devices.accelerated()) check_library(config, processes);
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

std::string describe_bits(const Config& config, const ops::InstructionSet& set) {
  const ops::Arithmetic arithmetic = arithmetic_of(config);
  if (!config.devices.accelerated()) return describe_bits(arithmetic, config.train.dtype, set);
  // Libraries have no products of bf16: our own are used.
  const bool library = arithmetic == ops::Arithmetic::Fastest && config.train.dtype == DType::F32;
  if (!library) return describe_bits(ops::Arithmetic::Exact, config.train.dtype, set);
  return detail::concat("those of ", ops::product_library(), " on devices of this sort");
}

}  // namespace cleave::train
