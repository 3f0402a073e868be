#pragma once

#include <memory>
#include <vector>

#include "cleave/engine/compile/compile.h"
#include "cleave/engine/compile/wires.h"

namespace cleave::engine {

/// [stage][number at a place], or the other way round; without memory.
using Stages = std::vector<std::vector<std::unique_ptr<Stage>>>;

/// How many devices share a stage: those at a place of it.
int devices_of(const CompiledStep& step, int stage);

/// What device `number` of a place has of a stage.
std::vector<SegmentSpec> segments_of(const CompiledStep& step, int stage, int number);

/// What a device of the run has of all its stages.
std::vector<SegmentSpec> segments_on(const CompiledStep& step, int device);

/// How the segments of the step's model are joined.
Wiring wiring_of(const CompiledStep& step);

/// How many parameters a device of the run has to answer for: copies and tied weights count where
/// they are owned.
std::int64_t parameters_of(const CompiledStep& step, int device);

/// [instruction of its list] bytes that a device of a compiled step sends to all that take part in
/// it: sums over replicas and over tied weights, what replicas share, NORM.
std::vector<std::int64_t> collective_bytes(const CompiledStep& step, int device);

/// A stage as the device of a number has it, without memory.
std::unique_ptr<Stage> make_stage(const CompiledStep& step, int stage, int number,
                                  const LayerFactory& make);

/// All stages as the devices of a number have them, without memory.
std::vector<std::unique_ptr<Stage>> stages_of_number(const CompiledStep& step, int number,
                                                     const LayerFactory& make);

/// All stages of a step that is laid out and lowered; sets what they need of memory and scratch.
Stages plan_stages(CompiledStep& step, const CompileOptions& options);

}  // namespace cleave::engine
