#pragma once

#include <chrono>
#include <cstdint>

namespace cleave::comm {

/// So much of what goes from one device of a served run to another may leave before word of its
/// receive has come: over a long link that word takes as long as the message itself. It waits in
/// memory of the receiver's transport, beside TCP's own buffers of that size, until its place is
/// known. Larger messages are announced first.
inline constexpr std::int64_t kEarlyBytes = std::int64_t{1} << 20;

/// Over a link whose round trip takes so long, a message of up to so many bytes is copied, so that
/// its send is complete at once: a copy costs nothing beside the way of an acknowledgement.
inline constexpr std::int64_t kCopiedOnLongLinks = std::int64_t{256} << 10;
inline constexpr std::chrono::milliseconds kLongRoundTrip{1};

}  // namespace cleave::comm
