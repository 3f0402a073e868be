#pragma once

#include "cleave/ops/attention_pool.h"

namespace cleave::ops::reference {

void attention_pool(const PoolShape& shape, ConstView q, ConstView kv, View y, View p);
void attention_pool_backward(const PoolShape& shape, const PoolGradient& at);

}  // namespace cleave::ops::reference
