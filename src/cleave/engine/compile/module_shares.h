#pragma once

#include <cstdint>
#include <vector>

#include "cleave/engine/compile/compile.h"

namespace cleave::engine {

/// Throws UserError, in the words of plan::check_degrees, if modules are to have tensor degrees of
/// their own and `options` have something that this does not go with.
void check_module_degrees(const CompileOptions& options);
/// The same of devices that sleep.
void check_emulated_degrees(const Layout& layout);

/// Rows of fewer items than there is room for need not divide by the shards.
enum class RowsOf : std::uint8_t { AllItems, FewerItems };

/// What each device at a place has of `model`: [number at a place], as CompiledStep::shares.
/// Encoders and the last module are cut into shards and shared by devices of their own numbers.
std::vector<Graph> shares_of(const Graph& model, const CompileOptions& options, RowsOf rows);

}  // namespace cleave::engine
