#pragma once

#include "cleave/base/check.h"
#include "cleave/train/config/config.h"

// What derive_edge asks of the two kinds of runs with owners.
namespace cleave::train {

/// Throws UserError if what [edge] says of rounds does not go together.
void check_averaging(const Config& config);

/// Lays a model out whose clients take turns at one copy of the server's layers.
void derive_in_order(const GivenKeys& given, Config& config);

/// Lets a client's steps be made of one example after another, where edge.example_noise asks for
/// it. Throws UserError if something else in the config does not go with it.
void derive_examples(const GivenKeys& given, Config& config);

/// Throws UserError, with the owners, if no owner has all layers that an example goes through.
void refuse_split_examples(const EdgeConfig& edge);

/// Lays a model out that is cut between clients and a server.
void derive_split(const GivenKeys& given, Config& config);

/// Sets `place` to what follows from the owners, unless the config says something else.
template <class T>
void settle(const GivenKeys& given, const char* key, T& place, const T& value) {
  require(!given.contains(key) || place == value, key,
          " does not follow from the owners of [edge], which fix it; leave it out");
  place = value;
}

}  // namespace cleave::train
