#pragma once

#include "cleave/shard/layer_traits.h"

namespace cleave::shard {

/// What a shard has of a parameter, by the parameter's own rule. Throws UserError, naming the
/// value, the rule and the remedy, if the parameter cannot be cut into that many.
ParameterSpec cut_parameter(const ParameterSpec& whole, const ShardNumber& shard);

/// Columns of a parameter that neighbouring shards have in common.
SharedColumns shared_columns(const ParameterSpec& whole, const ShardNumber& shard);

/// Where a shard's entries of a vocabulary begin; they need not be equally many.
std::int64_t vocabulary_border(std::int64_t vocabulary, int shard, int shards);

/// The name of what shard `local` of a device has of a layer or parameter.
std::string shard_name(const std::string& whole, int local);

/// The first device of the group owns the parameters; the others have copies.
void mark_copies(ParameterSpec& parameter, const TensorShare& share);
void mark_copies(LayerSpec& layer, const TensorShare& share);

}  // namespace cleave::shard
