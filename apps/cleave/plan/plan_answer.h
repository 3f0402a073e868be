#pragma once

#include "plan/plan_query.h"
#include "plan/run_length.h"

#include "cleave/plan/tune/layout_search.h"

namespace cleave::app {

/// What `cleave plan` answers about a cluster: one layout, or what a search found.
struct PlanAnswer {
  plan::Workload workload;
  plan::SearchResult search;  ///< with --layout: that one alone
  double search_seconds = 0;
  bool searched = false;
  std::optional<RunLength> length;  ///< of all tokens, if --tokens says how many

  /// The layout to take, or the nearest if none fits.
  const plan::Prediction& choice() const {
    return search.best.empty() ? search.nearest.front() : search.best.front();
  }
};

/// Predicts the layout that was asked about, or searches. Throws UserError if the question makes no
/// sense.
PlanAnswer ask(const PlanFlags& flags);

}  // namespace cleave::app
