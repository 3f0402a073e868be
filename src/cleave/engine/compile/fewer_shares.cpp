#include "cleave/engine/compile/fewer_shares.h"

#include <algorithm>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/engine/compile/laid_out.h"
#include "cleave/engine/compile/module_shares.h"
#include "cleave/spec/trainable.h"

namespace cleave::engine {

FewerShares fewer_shares(const FewerItems& fewer, const CompileOptions& options,
                         std::span<const Graph> usual) {
  Graph model = prepared(fewer.model, options.purpose);
  give_slots(model.segments, *options.optimizer, options.hyper);
  std::vector<Graph> shares = shares_of(model, options, RowsOf::FewerItems);
  if (options.purpose != Purpose::Evaluate) std::ranges::for_each(shares, leave_out_unwanted);
  FewerShares made{.items = fewer.items};
  for (std::size_t number = 0; number < shares.size(); ++number) {
    std::vector<SegmentSpec>& segments = shares[number].segments;
    const std::vector<SegmentSpec>& all = usual[number].segments;
    CLEAVE_CHECK(segments.size() == all.size(), "a model with ", fewer.items, " items has ",
                 segments.size(), " segments, and ", all.size(), " with all");
    for (std::size_t s = 0; s < segments.size(); ++s)
      if (segments[s] == all[s]) segments[s].layers.clear();
    made.segments.push_back(std::move(segments));
  }
  return made;
}

}  // namespace cleave::engine
