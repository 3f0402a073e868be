#include "cleave/train/loop/metrics_log.h"

#include <charconv>
#include <cmath>
#include <string>

#include <fmt/format.h>

namespace cleave::train {
namespace {

constexpr std::string_view kStart = "{\"step\":";
constexpr std::string_view kEventStart = "{\"event\":";

/// Enough digits to read the same number back; JSON has no NaN.
std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

/// The step of a line that we wrote; nothing for any other line.
std::optional<std::int64_t> step_of(std::string_view line) {
  if (!line.starts_with(kStart) || !line.ends_with('}')) return std::nullopt;
  std::int64_t step = 0;
  const auto [end, error] =
      std::from_chars(line.data() + kStart.size(), line.data() + line.size(), step);
  return error == std::errc() ? std::optional(step) : std::nullopt;
}

/// The whole lines of events and of steps up to `step`, as far as no other comes between them.
std::string kept_of(std::string_view text, std::int64_t step) {
  std::string kept;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string_view::npos;
       at = end + 1) {
    const std::string_view line = text.substr(at, end - at);
    const auto found = step_of(line);
    if (!found && !MetricsLog::is_event(line)) break;
    if (!found || *found <= step) kept += std::string(line) + "\n";
  }
  return kept;
}

/// As JSON has it between quotes.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

bool MetricsLog::is_event(std::string_view line) {
  return line.starts_with(kEventStart) && line.ends_with('}');
}

std::string line_of(const StepMetrics& m) {
  std::string line = fmt::format(
      R"({}{},"loss":{},"gradient_norm":{},"lr":{},"tokens_per_second":{},"seconds":{},"wait_seconds":{},"epochs":{},"memory_bytes":{})",
      kStart, m.step, number(m.loss), number(m.gradient_norm), number(m.lr),
      number(m.tokens_per_second), number(m.seconds), number(m.wait), number(m.epochs),
      m.memory_bytes);
  if (m.validation_loss) line += fmt::format(",\"validation_loss\":{}", number(*m.validation_loss));
  if (m.accuracy) line += fmt::format(",\"accuracy\":{}", number(*m.accuracy));
  return line + "}\n";
}

MetricsLog::MetricsLog(const std::filesystem::path& path, std::int64_t step)
    : file_(File::open_or_create(path)) {
  const std::string text = read_text(path);
  const std::string kept = kept_of(text, step);
  // An event may come after steps that are cut off; it moves up.
  if (!text.starts_with(kept)) file_.write(std::as_bytes(std::span(kept)), 0);
  end_ = std::ssize(kept);
  file_.truncate(end_);
}

void MetricsLog::append(const std::string& line) {
  try {
    file_.write(std::as_bytes(std::span(line)), end_);
  } catch (const IoError&) {
    file_.truncate(end_);
    throw;
  }
  end_ += std::ssize(line);
}

void MetricsLog::write(const StepMetrics& metrics) {
  append(line_of(metrics));
}

void MetricsLog::write(const RunEvent& event) {
  const std::string time = event.time > 0 ? fmt::format(",\"time\":{:.3f}", event.time) : "";
  append(fmt::format("{}\"{}\",\"after_step\":{}{},\"text\":\"{}\"}}\n", kEventStart,
                     escaped(event.kind), event.step, time, escaped(event.text)));
}

}  // namespace cleave::train
