#include "cleave/train/tune/look_ahead.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "cleave/schedule/generators.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

constexpr double kAsFast = 1.01;   ///< of two runs this near the one that looks less far is chosen
constexpr int kVainDoublings = 2;  ///< after which looking further ahead is given up

bool starts_early(const Config& config) {
  const std::vector<schedule::Schedule>& known = schedule::schedules();
  const auto found = std::ranges::find(known, config.parallel.schedule, &schedule::Schedule::name);
  return found != known.end() && found->starts_early;
}

/// Time falls and bytes rise with either number, so both searches double and then halve.
class LookAheadSearch {
 public:
  LookAheadSearch(const Config& config, const WeighRun& weigh)
      : config_(config),
        weigh_(weigh),
        microbatches_(compile_options(config).microbatches),
        given_receives_(config.parallel.receive_ahead),
        given_early_(starts_early(config) ? config.parallel.early
                                          : config.parallel.early.value_or(0)) {}

  plan::Prediction run() {
    const int least_early = static_cast<int>(given_early_.value_or(0));
    const int least_receives = static_cast<int>(given_receives_.value_or(1));
    if (!weighed(least_early, least_receives).fits()) return weighed(least_early, least_receives);
    std::vector<std::pair<int, int>> found = {{least_early, furthest(least_early, least_receives)}};
    const int most_early = given_early_ ? least_early : microbatches_;
    for (int early = 1; early <= most_early; early = early < 4 ? early + 1 : early * 2) {
      if (!weighed(early, found.back().second).fits()) break;
      const double before = seconds(found.back());
      found.emplace_back(early, furthest(early, found.back().second));
      if (seconds(found.back()) * kAsFast > before) break;
    }
    double best = seconds(found.front());
    for (const auto& each : found) best = std::min(best, seconds(each));
    const auto chosen = std::ranges::find_if(
        found, [&](const auto& each) { return seconds(each) <= kAsFast * best; });
    const auto [most, receives] = *chosen;
    const int early = nearest(chosen == found.begin() ? most : std::prev(chosen)->first + 1, most,
                              kAsFast * best, [&](int each) {
                                return seconds({each, receives});
                              });
    return weighed(early, nearest(least_receives, receives, kAsFast * best, [&](int each) {
                     return seconds({early, each});
                   }));
  }

 private:
  const plan::Prediction& weighed(int early, int receives) {
    const auto key = std::pair(early, receives);
    auto found = weighed_.find(key);
    if (found == weighed_.end()) {
      Config config = config_;
      config.parallel.early = early;
      config.parallel.receive_ahead = receives;
      found = weighed_.emplace(key, weigh_(config)).first;
    }
    return found->second;
  }

  double seconds(std::pair<int, int> key) { return weighed(key.first, key.second).step_seconds; }

  /// The look-ahead from `from` on, by doubling, that fits and beyond which nothing is gained.
  int furthest(int early, int from) {
    if (given_receives_) return from;
    int best = from;
    int vain = 0;
    for (int receives = 2 * from; receives <= 4 * microbatches_ && vain < kVainDoublings;
         receives *= 2) {
      const bool fits = weighed(early, receives).fits();
      const int tried = fits ? receives : last_fitting(early, receives / 2, receives);
      const bool gains = seconds({early, tried}) * kAsFast < seconds({early, best});
      vain = gains ? 0 : vain + 1;
      if (gains) best = tried;
      if (!fits) break;
    }
    return best;
  }

  /// The furthest that fits between `low`, which does, and `high`, which does not.
  int last_fitting(int early, int low, int high) {
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      (weighed(early, middle).fits() ? low : high) = middle;
    }
    return low;
  }

  /// The least between `low` and `high`, which does, that takes no more than `limit`.
  static int nearest(int low, int high, double limit, const std::function<double(int)>& takes) {
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (takes(middle) <= limit) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return high;
  }

  const Config& config_;
  const WeighRun& weigh_;
  int microbatches_;
  Auto given_receives_, given_early_;
  std::map<std::pair<int, int>, plan::Prediction> weighed_;
};

}  // namespace

bool leaves_look_ahead_open(const Config& config) {
  const ParallelConfig& p = config.parallel;
  return p.pipeline.value_or(1) > 1 && (!p.receive_ahead || (!p.early && starts_early(config)));
}

plan::Prediction hide_latency(const Config& config, const WeighRun& weigh) {
  return LookAheadSearch(config, weigh).run();
}

Config with_look_ahead(Config config, const plan::Layout& layout) {
  config.parallel.receive_ahead = layout.receive_ahead;
  config.parallel.early = layout.early;
  return config;
}

}  // namespace cleave::train
