#include "cleave/plan/tune/layout_search.h"

#include <cmath>
#include <limits>
#include <utility>

#include "cleave/base/check.h"

namespace cleave::plan {
namespace {

constexpr std::size_t kFitting = 5;     ///< how many of the fastest are certain to be in the answer
constexpr double kGainOfSaving = 1.01;  ///< what each degree of ZeRO and recompute must gain
constexpr double kCut = 1.02;           ///< the time of a good cut may be this much too long
constexpr double kRoughCut = 1.15;      ///< and that of a rough one this much

class LayoutSearch {
 public:
  explicit LayoutSearch(Oracle& oracle) : oracle_(oracle) {}

  SearchResult run(const LayoutSpace& space, const std::vector<Layout>& layouts) {
    for (const Layout& layout : layouts) add_candidate(savings(space, layout));
    std::ranges::stable_sort(candidates_, {}, &Candidate::bound);
    for (const Candidate& candidate : candidates_) {
      try {
        consider(candidate);
      } catch (const UserError& error) {
        result_.reason = error.what();
      }
    }
    return std::move(result_);
  }

 private:
  struct Candidate {
    std::vector<Layout> variants;  ///< that may fit, the least saving first
    double bound = 0;
    std::size_t order = 0;
  };

  void add_candidate(std::vector<Layout> variants) {
    const auto first = std::ranges::find_if(
        variants, [&](const Layout& variant) { return oracle_.may_fit(variant); });
    result_.variants += std::ssize(variants);
    result_.variants_unfit += first - variants.begin();
    const auto order = static_cast<std::size_t>(result_.layouts++);
    variants.erase(variants.begin(), first);
    if (variants.empty()) return;
    const double bound = oracle_.bound(variants.front());
    candidates_.push_back({std::move(variants), bound, order});
  }

  /// What a run that is still worth looking at stays below.
  double limit() const {
    if (result_.fitting.size() < kFitting) return std::numeric_limits<double>::infinity();
    return result_.fitting[kFitting - 1].step_seconds;
  }

  /// One layout, with the fastest of what it can do about memory that makes it fit.
  void consider(const Candidate& candidate) {
    if (candidate.bound > limit() ||
        oracle_.roomy_seconds(candidate.variants.front()) > kRoughCut * limit()) {
      ++result_.slower;
      return;
    }
    std::optional<Prediction> nearest;
    for (const Layout* variant : by_time(candidate.variants)) {
      std::optional<Prediction> run = oracle_.predict(*variant, kCut * limit());
      if (!run) continue;
      ++result_.simulated;
      run->order = candidate.order;
      if (run->fits()) return insert_by_time(result_.fitting, std::move(*run));
      if (!nearest || run->excess() < nearest->excess()) nearest = std::move(run);
    }
    if (nearest) return insert_by_time(result_.unfit, std::move(*nearest));
    ++result_.slower;
  }

  std::vector<const Layout*> by_time(const std::vector<Layout>& variants) {
    std::vector<std::pair<double, const Layout*>> timed;
    for (const Layout& one : variants) {
      const double seconds = variants.size() == 1 ? 0 : oracle_.roomy_seconds(one);
      timed.emplace_back(seconds * std::pow(kGainOfSaving, degree_of_saving(one)), &one);
    }
    std::ranges::stable_sort(timed, {}, &std::pair<double, const Layout*>::first);
    std::vector<const Layout*> result;
    for (const auto& [seconds, one] : timed) result.push_back(one);
    return result;
  }

  Oracle& oracle_;
  std::vector<Candidate> candidates_;
  SearchResult result_;
};

}  // namespace

void insert_by_time(std::vector<Prediction>& list, Prediction run) {
  const auto after =
      std::ranges::upper_bound(list, run.step_seconds, {}, &Prediction::step_seconds);
  list.insert(after, std::move(run));
}

SearchResult search(const LayoutSpace& space, const std::vector<Layout>& layouts, Oracle& oracle) {
  return LayoutSearch(oracle).run(space, layouts);
}

}  // namespace cleave::plan
