#include "cleave/edge/owner.h"

#include <algorithm>
#include <array>

namespace cleave::edge {
namespace {

constexpr std::array<std::string_view, kClasses> kNames = {
    "input",  "label",         "activation",    "gradient", "weight",
    "update", "masked update", "noised update", "statistic"};

}  // namespace

std::string_view name_of(Class what) {
  return kNames.at(static_cast<std::size_t>(what));
}

std::optional<Class> class_named(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Class>(found - kNames.begin());
}

bool Owner::may_send(Class what) const {
  return std::ranges::find(sends, what) != sends.end();
}

Owner usual_owner(Role role) {
  Owner owner{.role = role};
  if (role == Role::Client) {
    owner.holds_inputs = owner.holds_labels = true;
    owner.sends = {Class::Activation,   Class::Gradient,     Class::Update,
                   Class::MaskedUpdate, Class::NoisedUpdate, Class::Statistic};
  } else {
    for (int i = 0; i < kClasses; ++i) owner.sends.push_back(static_cast<Class>(i));
  }
  return owner;
}

}  // namespace cleave::edge
