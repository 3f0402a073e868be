#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cleave::edge {

/// The route by which data left an owner, not how much it reveals. The first ones say most.
enum class Class : std::uint8_t {
  Input,         ///< what is trained on, or what an owner made of it without a single product
  Label,         ///< what is to be predicted, or what was made of it without a product
  Activation,    ///< what F gives
  Gradient,      ///< what I gives
  Weight,        ///< parameters, as they are
  Update,        ///< what W gives: sums of gradients, or the difference that local steps made
  MaskedUpdate,  ///< under a mask that only the sum over clients is free of
  NoisedUpdate,  ///< clipped, and with noise upon it
  Statistic,     ///< a loss, a norm, a count
};
inline constexpr int kClasses = static_cast<int>(Class::Statistic) + 1;

/// "activation", as configs and tables write it.
std::string_view name_of(Class what);
std::optional<Class> class_named(std::string_view name);

enum class Role : std::uint8_t { Client, Server };

/// A party of a run, as [[edge.owner]] has it.
struct Owner {
  std::string name;
  Role role = Role::Client;
  std::int64_t memory = 0;  ///< bytes of each of its devices; 0: no limit
  bool holds_inputs = false;
  bool holds_labels = false;
  std::vector<Class> sends;          ///< what may leave it, ascending
  std::string data;                  ///< where its own data is; empty: a share of [data]
  std::vector<std::int64_t> layers;  ///< client: before the server's, and after them if two
  std::int64_t devices = 1;          ///< server: how many take part in each client's pipeline

  bool may_send(Class what) const;

  friend bool operator==(const Owner&, const Owner&) = default;
};

/// What an owner of this role sends and holds where the config does not say.
Owner usual_owner(Role role);

}  // namespace cleave::edge
