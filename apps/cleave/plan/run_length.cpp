#include "plan/run_length.h"

#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "cleave/base/check.h"

namespace cleave::app {
namespace {

struct Unit {
  char letter;
  double count;
};
constexpr std::array<Unit, 4> kUnits = {{{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}}};

/// "300B".
double parse_tokens(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, number);
  double count = after == end ? 1 : 0;
  for (const Unit& unit : kUnits)
    if (after + 1 == end && *after == unit.letter) count = unit.count;
  require(error == std::errc() && count > 0 && number > 0 && std::isfinite(number), "--tokens ",
          text, " is no number of tokens; write it as 300B, 15T, or in digits");
  return number * count;
}

std::string format_count(double count) {
  for (std::size_t i = kUnits.size(); i-- > 0;)
    if (count >= kUnits[i].count)
      return fmt::format("{:.4g}{}", count / kUnits[i].count, kUnits[i].letter);
  return fmt::format("{:.4g}", count);
}

}  // namespace

double tokens_per_second(const plan::Workload& workload, const plan::Prediction& prediction) {
  return static_cast<double>(workload.batch * workload.sequence) / prediction.step_seconds;
}

double tflops_per_device(const plan::Workload& workload, const plan::Prediction& prediction) {
  return plan::model_flops(workload) / prediction.step_seconds /
         static_cast<double>(prediction.layout.devices()) / 1e12;
}

double flops_share(const plan::Workload& workload, const plan::Prediction& prediction) {
  return tflops_per_device(workload, prediction) * 1e12 / workload.cluster.hardware->peak_flops;
}

std::optional<RunLength> run_length(const PlanFlags& flags, const plan::Workload& workload,
                                    const plan::Prediction& prediction) {
  const std::optional<double> price = flags.price ? flags.price : flags.file.price;
  require(!price || (*price > 0 && std::isfinite(*price)), "--price ", price.value_or(0),
          " must be above 0: what a device costs for an hour");
  require(!flags.price || !flags.tokens.empty(),
          "--price says what an hour costs, and --tokens is not given; say how many there are");
  if (flags.tokens.empty()) return std::nullopt;
  RunLength length{.tokens = parse_tokens(flags.tokens)};
  const double hours = length.tokens / tokens_per_second(workload, prediction) / 3600;
  length.days = hours / 24;
  length.device_hours = hours * static_cast<double>(workload.cluster.devices);
  if (price) length.cost = length.device_hours * *price;
  return length;
}

std::string describe_rate(const plan::Workload& workload, const plan::Prediction& prediction,
                          const std::optional<RunLength>& length) {
  std::string text =
      fmt::format("{} tokens/s in sequences of {}",
                  format_count(tokens_per_second(workload, prediction)), workload.sequence);
  if (length) {
    text +=
        fmt::format("; {} tokens take {:.3g} days, {} device hours", format_count(length->tokens),
                    length->days, format_count(length->device_hours));
    if (length->cost) text += fmt::format(", and cost {}", format_count(*length->cost));
  }
  return text + "\n";
}

}  // namespace cleave::app
