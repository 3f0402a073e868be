#pragma once

#include <cstdint>

namespace cleave::comm {

/// So much of what goes from one device of a served run to another may leave before word of its
/// receive has come: over a long link that word takes as long as the message itself. It waits in
/// memory of the receiver's transport, beside TCP's own buffers of that size, until its place is
/// known. Larger messages are announced first.
inline constexpr std::int64_t kEarlyBytes = std::int64_t{1} << 20;

}  // namespace cleave::comm
