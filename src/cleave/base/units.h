#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cleave {

/// Bytes from "96MiB", "1.5 GiB", "2GB", "4096" or "4096B". Throws UserError on anything else,
/// on negative sizes and on sizes past 2^62.
std::int64_t parse_bytes(std::string_view text);

/// "96.0 MiB", "1.50 GiB", "512 B": three significant digits, binary units.
std::string format_bytes(std::int64_t bytes);

/// Seconds from "5ms", "1.5s", "20us", "100ns", or plain seconds. Throws UserError otherwise.
double parse_seconds(std::string_view text);

/// "5.00 ms", "1.50 s", "2m 05s": three significant digits below a minute.
std::string format_seconds(double seconds);

/// "1 device", "4 devices".
std::string counted(std::int64_t count, std::string_view thing);

/// "12.3 %" of 0.123.
std::string format_share(double share);

/// Every buffer starts on a border of this many bytes: one cache line, one AVX-512 register.
inline constexpr std::int64_t kAlignment = 64;

/// `bytes` rounded up to the next multiple of kAlignment.
constexpr std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace cleave
