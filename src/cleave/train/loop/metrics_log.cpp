#include "cleave/train/loop/metrics_log.h"

#include <charconv>
#include <cmath>
#include <string>

#include <fmt/format.h>

namespace cleave::train {
namespace {

constexpr std::string_view kStart = "{\"step\":";

/// Enough digits to read the same number back; JSON has no NaN.
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string line_of(const StepMetrics& m) {
  std::string line = fmt::format(
      R"({}{},"loss":{},"gradient_norm":{},"lr":{},"tokens_per_second":{},"seconds":{},"memory_bytes":{})",
      kStart, m.step, number(m.loss), number(m.gradient_norm), number(m.lr),
      number(m.tokens_per_second), number(m.seconds), m.memory_bytes);
  if (m.validation_loss) line += fmt::format(",\"validation_loss\":{}", number(*m.validation_loss));
  return line + "}\n";
}

/// The step of a line that we wrote; nothing for any other line.
std::optional<std::int64_t> step_of(std::string_view line) {
  if (!line.starts_with(kStart) || !line.ends_with('}')) return std::nullopt;
  std::int64_t step = 0;
  const auto [end, error] =
      std::from_chars(line.data() + kStart.size(), line.data() + line.size(), step);
  return error == std::errc() ? std::optional(step) : std::nullopt;
}

/// Bytes of the whole lines up to `step`.
std::int64_t length_up_to(std::string_view text, std::int64_t step) {
  std::size_t kept = 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos;
       end = text.find('\n', kept)) {
    const auto found = step_of(text.substr(kept, end - kept));
    if (!found || *found > step) break;
    kept = end + 1;
  }
  return static_cast<std::int64_t>(kept);
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& path, std::int64_t step)
    : file_(File::open_or_create(path)) {
  if (step > 0) end_ = length_up_to(read_text(path), step);
  file_.truncate(end_);
}

void MetricsLog::write(const StepMetrics& metrics) {
  const std::string line = line_of(metrics);
  try {
    file_.write(std::as_bytes(std::span(line)), end_);
  } catch (const IoError&) {
    file_.truncate(end_);
    throw;
  }
  end_ += std::ssize(line);
}

}  // namespace cleave::train
