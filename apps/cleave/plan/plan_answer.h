#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan_query.h"
#include "plan/run_length.h"

#include "cleave/plan/tune/analytic/cluster_search.h"

namespace cleave::app {

/// What `cleave plan` answers about a cluster: one layout, or what a search found.
struct PlanAnswer {
  plan::Workload workload;
  plan::SearchResult search;  ///< with --layout: that one alone
  double search_seconds = 0;
  bool searched = false;
  std::int64_t devices_needed = 0;  ///< that would do, where a search found nothing; 0: none do
  std::optional<RunLength> length;  ///< of all tokens, if --tokens says how many
  /// The system that --export names, where the search kept to its layouts; empty: to none's.
  std::string kept_to = {};
  std::optional<plan::Prediction> beyond;  ///< what it lacks, where that is faster or fits alone

  /// The fastest, or those that come nearest to fitting.
  const std::vector<plan::Prediction>& listed() const {
    return search.fitting.empty() ? search.unfit : search.fitting;
  }
  const plan::Prediction& choice() const { return listed().front(); }
};

/// Predicts the layout that was asked about, or searches. Throws UserError if the question makes no
/// sense.
PlanAnswer ask(const PlanFlags& flags);

}  // namespace cleave::app
