#pragma once

#include <string>

#include "cleave/comm/communicator.h"
#include "cleave/ops/instruction_set.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// Settles config.numerics.exact for the whole run. What is given holds; else it is true where that
/// costs nothing on this processor and dtype, and as soon as the processors of the devices differ.
/// All processes of the run call it, each for its own processor. Throws UserError where it must be
/// true and a processor has no fused multiply-add, or where it is false and accelerators have no
/// library for it, or are not alike.
void resolve_numerics(Config& config, const ops::InstructionSet& set,
                      comm::Communicator& processes);

/// How the devices of a run compute; as costs nothing here if that was not settled.
ops::Arithmetic arithmetic_of(const Config& config);

/// Who shares the bits of a run: "exact: those of every processor with fused multiply-add".
std::string describe_bits(ops::Arithmetic arithmetic, DType dtype, const ops::InstructionSet& set);

/// The same of a run whose devices are those of `config`, accelerators or not.
std::string describe_bits(const Config& config, const ops::InstructionSet& set);

}  // namespace cleave::train
