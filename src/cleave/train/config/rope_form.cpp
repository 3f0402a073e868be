#include "cleave/train/config/rope_form.h"

#include <charconv>
#include <ranges>

#include <fmt/format.h>

#include "cleave/train/config/config_rules.h"

// model.rope_scaling: a kind, and then numbers by name: "llama3,factor=8,original_context=8192".
namespace cleave::train {
namespace {

using Kind = RopeScaling::Kind;

constexpr std::pair<std::string_view, Kind> kKinds[] = {{"linear", Kind::Linear},
                                                        {"dynamic", Kind::Dynamic},
                                                        {"llama3", Kind::Llama3},
                                                        {"yarn", Kind::Yarn}};

struct RopeNumber {
  std::string_view name;
  double RopeScaling::*number;
};
constexpr RopeNumber kNumbers[] = {{"factor", &RopeScaling::factor},
                                   {"original_context", &RopeScaling::original_context},
                                   {"low_freq_factor", &RopeScaling::low_freq_factor},
                                   {"high_freq_factor", &RopeScaling::high_freq_factor},
                                   {"beta_fast", &RopeScaling::beta_fast},
                                   {"beta_slow", &RopeScaling::beta_slow},
                                   {"attention_factor", &RopeScaling::attention_factor}};
constexpr std::string_view kNotTruncated = "truncate=false";

bool set_number(std::string_view word, RopeScaling& scaling) {
  if (word == kNotTruncated) {
    scaling.truncate = false;
    return true;
  }
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return false;
  for (const RopeNumber& known : kNumbers) {
    if (word.substr(0, equals) != known.name) continue;
    const std::string_view text = word.substr(equals + 1);
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), scaling.*known.number);
    return error == std::errc() && end == text.data() + text.size();
  }
  return false;
}

}  // namespace

std::string rope_scaling_rule() {
  return "linear, dynamic, llama3 or yarn with numbers, such as \"linear,factor=2\"";
}

bool set_rope_scaling(Config& config, const Value& value) {
  const auto* text = rules::as<std::string>(value);
  if (text == nullptr) return false;
  RopeScaling scaling;
  for (const auto part : std::views::split(*text, ',')) {
    const std::string_view word(part.begin(), part.end());
    if (scaling.kind != Kind::None) {
      if (!set_number(word, scaling)) return false;
      continue;
    }
    for (const auto& [name, kind] : kKinds)
      if (word == name) scaling.kind = kind;
    if (scaling.kind == Kind::None) return false;
  }
  config.model.rope_scaling = scaling;
  return scaling.kind != Kind::None;
}

std::optional<Value> get_rope_scaling(const Config& config) {
  const RopeScaling& scaling = config.model.rope_scaling;
  const RopeScaling plain;
  std::string text;
  for (const auto& [name, kind] : kKinds)
    if (scaling.kind == kind) text = name;
  if (text.empty()) return std::nullopt;
  for (const RopeNumber& known : kNumbers) {
    if (scaling.*known.number == plain.*known.number) continue;
    text += fmt::format(",{}={}", known.name, scaling.*known.number);
  }
  if (!scaling.truncate) text += fmt::format(",{}", kNotTruncated);
  return Value{std::move(text)};
}

}  // namespace cleave::train
