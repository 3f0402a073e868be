#pragma once

#include <optional>
#include <string_view>

#include "cleave/schedule/program.h"

namespace cleave::schedule {

inline constexpr int kTextVersion = 1;

/// "kept-for-input": the word of the text form.
std::string_view name_of(BufferKind kind);
std::optional<BufferKind> buffer_kind(std::string_view name);

/// The inverse of to_string(Instruction); nothing if `token` is none.
std::optional<Instruction> parse_instruction(std::string_view token);

}  // namespace cleave::schedule
