#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cleave::ops {

/// What x86 processors have learned over the years, each level with all before it.
enum class InstructionLevel : std::uint8_t { Scalar, Sse4, Avx2, Avx512, Avx512Bf16, Amx };

/// The level that a name such as "avx2" stands for; throws UserError if it stands for none.
InstructionLevel instruction_level(std::string_view name);

/// The level beyond which no kernel goes, whatever the processor has: that of the environment
/// variable CLEAVE_ISA, if it is set. It is read once, before the first kernel is chosen, and holds
/// for our own kernels and oneDNN's alike. On processors that are not x86 it changes nothing.
InstructionLevel instruction_limit();

/// The value of CLEAVE_ISA; empty if it is not set.
std::string instruction_limit_name();

}  // namespace cleave::ops
