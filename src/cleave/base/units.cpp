#include "cleave/base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "cleave/base/check.h"

namespace cleave {
namespace {

struct Unit {
  std::string_view name;
  double scale;
};

constexpr std::array<Unit, 10> kByteUnits = {{{"", 1.0},
                                              {"B", 1.0},
                                              {"KiB", 1024.0},
                                              {"MiB", 1048576.0},
                                              {"GiB", 1073741824.0},
                                              {"TiB", 1099511627776.0},
                                              {"KB", 1e3},
                                              {"MB", 1e6},
                                              {"GB", 1e9},
                                              {"TB", 1e12}}};

/// A clock of nanoseconds can count a few of them.
constexpr double kLongestTime = 1e9;  // seconds

constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

constexpr std::array<Unit, 5> kTimeUnits = {
    {{"", 1.0}, {"s", 1.0}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}}};

/// The scale of what is left of a text after its number: blanks and a unit; negative if it is none.
double scale_of(std::string_view name, std::span<const Unit> units) {
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  for (const Unit& unit : units) {
    if (unit.name == name) return unit.scale;
  }
  return -1;
}

/// A number, optional blanks, one of `units`; negative on failure.
double parse(std::string_view text, std::span<const Unit> units) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return -1;
  const double scale = scale_of(text.substr(rest - text.data()), units);
  return scale < 0 ? -1 : number * scale;
}

/// The same for a whole number of bytes, which a double does not hold above 2^53; the largest
/// integer stands for all that are larger.
std::optional<std::int64_t> parse_whole_bytes(std::string_view text) {
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  const double scale = scale_of(text.substr(rest - text.data()), kByteUnits);
  if (scale < 0) return std::nullopt;
  std::int64_t bytes = 0;
  const bool fits = !__builtin_mul_overflow(number, static_cast<std::int64_t>(scale), &bytes);
  return fits ? bytes : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

std::int64_t parse_bytes(std::string_view text) {
  const auto whole = parse_whole_bytes(text);
  const double bytes = parse(text, kByteUnits);
  require(bytes >= 0, "\"", text, "\" is not a size in bytes; write for example 96MiB or 2GiB");
  require(whole ? *whole <= kMostBytes : bytes <= static_cast<double>(kMostBytes), "\"", text,
          "\" is larger than any memory; the limit is 4 EiB");
  return whole ? *whole : static_cast<std::int64_t>(std::llround(bytes));
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array<std::string_view, 6> kNames = {"B",   "KiB", "MiB",
                                                             "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  const int decimals = std::abs(value) >= 99.95 ? 0 : std::abs(value) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, kNames[unit]);
}

double parse_seconds(std::string_view text) {
  const double seconds = parse(text, kTimeUnits);
  require(seconds >= 0, "\"", text, "\" is not a time; write for example 5ms or 1.5s");
  require(seconds <= kLongestTime, "\"", text, "\" is longer than any run; the limit is 1e9 s");
  return seconds;
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds >= 59.95) {
    const auto whole = static_cast<std::int64_t>(std::llround(seconds));
    if (whole >= 3600) return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
    return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  }
  static constexpr std::array<std::string_view, 4> kNames = {"s", "ms", "us", "ns"};
  std::size_t unit = 0;
  while (seconds != 0 && std::abs(seconds) < 0.9995 && unit + 1 < kNames.size()) {
    seconds *= 1000;
    ++unit;
  }
  const int decimals = std::abs(seconds) >= 99.95 ? 0 : std::abs(seconds) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", seconds, decimals, kNames[unit]);
}

std::string counted(std::int64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string format_share(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

}  // namespace cleave
