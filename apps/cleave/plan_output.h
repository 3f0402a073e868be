#pragma once

#include <string>

#include "cleave/plan/analytic/predict.h"
#include "cleave/plan/search/layout_search.h"

namespace cleave::app {

/// What `cleave plan` answers about a cluster: one layout, or what a search found.
struct PlanAnswer {
  plan::Workload workload;
  plan::SearchResult search;  ///< with --layout: that one alone
  double search_seconds = 0;
  bool searched = false;

  /// The layout to take, or the nearest if none fits.
  const plan::Prediction& choice() const {
    return search.best.empty() ? search.nearest.front() : search.best.front();
  }
};

std::string to_json(const PlanAnswer& answer);

/// The choice, where its time and memory go, and why the others lost.
std::string to_text(const PlanAnswer& answer);

/// One sentence for stderr if nothing fits.
std::string refusal(const PlanAnswer& answer);

}  // namespace cleave::app
