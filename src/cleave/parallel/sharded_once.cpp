// What a layer of shards does once for all of them, after their chains.

#include <algorithm>

#include "cleave/ops/elementwise.h"
#include "cleave/ops/embedding.h"
#include "cleave/ops/reduce.h"
#include "cleave/parallel/sharded.h"

namespace cleave::parallel {

void Sharded::add_after(ops::Compute& compute, ConstView sum, View y) {
  const int added = static_cast<int>(spec().parameters.size()) - 1;
  switch (attributes().after) {
    case AfterSum::Nothing:
      if (sum.bytes() != y.bytes()) ops::copy(compute, sum, y);
      return;
    case AfterSum::Bias:
      return ops::add(compute, sum, parameter(added).value.repeated(y.size(0)), y);
    case AfterSum::Positions: {
      const std::int64_t sequence = attributes().sequence;
      const std::int64_t first =
          divided() ? row_border(axis().tokens, axis().rank, axis().devices) : 0;
      for (std::int64_t row = 0; row < y.size(0);) {
        const std::int64_t position = (first + row) % sequence;
        const std::int64_t rows = std::min(sequence - position, y.size(0) - row);
        ops::add(compute, sum.slice(0, row, rows), parameter(added).value.slice(0, position, rows),
                 y.slice(0, row, rows));
        row += rows;
      }
    }
  }
}

void Sharded::add_after_gradient(ops::Compute& compute, ConstView dy, const LayerCall& call) {
  const int added = static_cast<int>(spec().parameters.size()) - 1;
  if (attributes().after == AfterSum::Nothing || !is_trained(added)) return;
  const View sum = gradient(added, call);
  if (call.gradient == Write::Overwrite) ops::fill(compute, 0, sum);
  if (attributes().after == AfterSum::Bias) {
    ops::add_column_sums(compute, dy, sum);
  } else {
    ops::position_backward(compute, dy, attributes().sequence, sum);
  }
}

/// Every shard has its own dk and dv of a head that several share; W needs their sum.
void Sharded::share_columns(ops::Compute& compute, const LayerCall& call, std::byte* room) {
  const SharedColumns& shared = attributes().shared;
  if (shared.shards < 2 || !trains(inner(0))) return;
  const int here = std::min(shared.shards, shards());
  const View first(room, inner(0).y.dtype, {axis().tokens, shared.columns});
  const PartialSums sums(first, room + shared_bytes());
  const auto columns = [&](int k) {
    return inner_dx(call, k, 1, nullptr).slice(1, shared.first, shared.columns);
  };
  for (int head = 0; head < shards(); head += here) {
    for (int k = 0; k < here; ++k) {
      ops::copy(compute, columns(head + k), sums[k]);
      sums.merge(compute, k);
    }
    if (shared.shards > here) group().all_reduce_shared(first);
    for (int k = 0; k < here; ++k) ops::copy(compute, first, columns(head + k));
  }
}

}  // namespace cleave::parallel
