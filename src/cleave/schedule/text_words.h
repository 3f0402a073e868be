#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cleave/schedule/program.h"

namespace cleave::schedule {

/// The form that is written; those before it are read as well.
inline constexpr int kTextVersion = 2;

/// "kept-for-input": the word of the text form.
std::string_view name_of(BufferKind kind);
std::optional<BufferKind> buffer_kind(std::string_view name);

/// "gradients": what a stage's replicas share.
std::string_view name_of(Sharing sharing);
std::optional<Sharing> sharing_named(std::string_view name);

/// "input-only".
std::string_view name_of(GradientKind kind);
std::optional<GradientKind> gradient_kind(std::string_view name);

/// The hash that a text of this version states of the program.
std::uint64_t content_hash(const Program& program, int version);

/// Adds what programs of version 1 left to the executor: the WAIT of every REDUCE and GATHER, where
/// it waited; says that the replicas of a stage with GATHER share its parameters. Buffers move
/// along with the instructions that they begin and end at.
void upgrade_from_version_1(Program& program);

/// The inverse of to_string(Instruction); nothing if `token` is none.
std::optional<Instruction> parse_instruction(std::string_view token);

}  // namespace cleave::schedule
