#pragma once

#include "cleave/shard/layer_traits.h"

namespace cleave::shard {

// The traits of cleave's own kinds of layers, one function per way of being cut.

/// Cut by the rule of its weight: columns, which a later layer must close, or rows, which close.
/// Whole if its weight is.
LayerTraits linear_traits();
/// As the linear layer in it, and B as the columns that it adds to.
LayerTraits lora_linear_traits();
/// As the linear layer in it, and A along the features that it reads.
LayerTraits lora_row_traits();
/// Every row is on its own.
LayerTraits lora_down_traits();
LayerTraits lora_up_traits();
/// Heads are dealt out to the shards.
LayerTraits attention_traits();
/// Every shard has its features; outside shards every row is on its own.
LayerTraits activation_traits();
/// Every row is on its own.
LayerTraits layernorm_traits();
LayerTraits rmsnorm_traits();
LayerTraits residual_traits();
/// Cut by vocabulary; positions are added once.
LayerTraits embedding_traits();
/// The vocabulary is cut, and its shards talk about maxima and sums.
LayerTraits loss_traits();

}  // namespace cleave::shard
