#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/plan/tune/layout_space.h"
#include "cleave/plan/tune/prediction.h"

namespace cleave::plan {

/// Says what layouts take: from formulas, from what was measured here, or from the times that
/// emulated devices are told to take.
class Oracle {
 public:
  virtual ~Oracle() = default;

  /// False if `layout` cannot fit, as far as can be told at once.
  virtual bool may_fit(const Layout& layout) = 0;

  /// Seconds that no run of this layout goes below, whatever it does about memory.
  virtual double bound(const Layout& layout) = 0;

  /// Seconds of a step if memory does not count; a few percent too long.
  virtual double roomy_seconds(const Layout& layout) = 0;

  /// Nothing if it turns out on the way that a step takes more than `limit`. Throws UserError on a
  /// layout that no run can have.
  virtual std::optional<Prediction> predict(const Layout& layout, double limit) = 0;
};

/// What a search found.
struct SearchResult {
  std::vector<Prediction> fitting = {};  ///< fastest first
  std::vector<Prediction> unfit = {};  ///< fastest first: of each layout what is nearest to fitting
  std::int64_t layouts = 0;            ///< considered
  std::int64_t variants = 0;           ///< of them, by what they do about memory
  std::int64_t variants_unfit = 0;     ///< that cannot fit, as told at once
  std::int64_t slower = 0;     ///< layouts that were told to be slower without being simulated
  std::int64_t simulated = 0;  ///< variants
  std::string reason = {};     ///< why the last layout that no run can have is none; or empty
};

/// Looks through `layouts` of `space`, least bound first. Each gets as much ZeRO and recompute as
/// it needs to fit.
///
/// Pruning is sound, as far as the oracle's bounds are: left out are variants that cannot fit; more
/// of ZeRO and recompute where less of it fits and is faster; and layouts whose bound is above the
/// fifth best time.
SearchResult search(const LayoutSpace& space, const std::vector<Layout>& layouts, Oracle& oracle);

/// Puts `run` where its time belongs.
void insert_by_time(std::vector<Prediction>& list, Prediction run);

}  // namespace cleave::plan
