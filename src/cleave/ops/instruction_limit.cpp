#include "cleave/ops/instruction_limit.h"

#include <cstdlib>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/ops/onednn/limit.h"
#include "cleave/ops/simd/target.h"

namespace cleave::ops {
namespace {

constexpr std::pair<std::string_view, InstructionLevel> kLevels[] = {
    {"scalar", InstructionLevel::Scalar},
    {"sse4", InstructionLevel::Sse4},
    {"avx2", InstructionLevel::Avx2},
    {"avx512", InstructionLevel::Avx512},
    {"avx512_bf16", InstructionLevel::Avx512Bf16},
    {"amx", InstructionLevel::Amx}};

InstructionLevel read_and_apply() {
  const std::string name = instruction_limit_name();
  const InstructionLevel level = name.empty() ? InstructionLevel::Amx : instruction_level(name);
  limit_simd(level);
  onednn::limit(level);
  return level;
}

}  // namespace

InstructionLevel instruction_level(std::string_view name) {
  std::string names;
  for (const auto& [known, level] : kLevels) {
    if (known == name) return level;
    names.append(names.empty() ? "" : ", ").append(known);
  }
  throw UserError(detail::concat("CLEAVE_ISA is \"", name,
                                 "\", which is no instruction set; choose one of ", names,
                                 ", or unset it"));
}

InstructionLevel instruction_limit() {
  static const InstructionLevel level = read_and_apply();
  return level;
}

std::string instruction_limit_name() {
  const char* value = std::getenv("CLEAVE_ISA");
  return value == nullptr ? "" : value;
}

}  // namespace cleave::ops
