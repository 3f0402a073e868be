#include "cleave/edge/partition.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cleave/base/check.h"
#include "cleave/base/elementary.h"
#include "cleave/base/permutation.h"
#include "cleave/base/philox.h"

namespace cleave::edge {
namespace {

using Shares = std::vector<std::vector<std::int64_t>>;  ///< [client] -> samples

void shuffle(std::vector<std::int64_t>& samples, std::int64_t seed, const std::string& purpose) {
  if (samples.empty()) return;
  const Permutation order(samples.size(), seed, purpose);
  std::vector<std::int64_t> shuffled(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) shuffled[i] = samples[order.at(0, i)];
  samples = std::move(shuffled);
}

std::vector<std::int64_t> all_samples(std::size_t count, const Partitioning& how) {
  std::vector<std::int64_t> samples(count);
  std::iota(samples.begin(), samples.end(), 0);
  shuffle(samples, how.seed, "samples to clients");
  return samples;
}

/// [label] -> its samples, shuffled.
Shares by_label(std::span<const int> labels, const Partitioning& how) {
  Shares samples(1 + std::ranges::max(labels));
  for (std::size_t i = 0; i < labels.size(); ++i)
    samples[labels[i]].push_back(static_cast<std::int64_t>(i));
  for (std::size_t label = 0; label < samples.size(); ++label)
    shuffle(samples[label], how.seed, detail::concat("samples of label ", label));
  return samples;
}

/// Independent draws, counted through.
class Draws {
 public:
  Draws(std::int64_t seed, const std::string& name)
      : random_(static_cast<std::uint64_t>(seed), "clients", name) {}

  /// In (0, 1).
  double uniform() {
    const auto words = random_.block(next_++);
    const std::uint64_t bits = (std::uint64_t{words[0]} << 32 | words[1]) >> 12;
    return (static_cast<double>(bits) + 0.5) / 0x1p52;
  }

  double normal() {
    const double radius = std::sqrt(-2 * natural_log(uniform()));
    return radius * sine_cosine(2 * 3.14159265358979323846 * uniform()).cosine;
  }

  /// The logarithm of a draw from the gamma distribution (Marsaglia and Tsang, 2000): for a small
  /// shape the draw itself would be less than any number.
  double log_gamma_draw(double shape) {
    if (shape < 1) return log_gamma_draw(shape + 1) + natural_log(uniform()) / shape;
    const double d = shape - 1.0 / 3;
    const double c = 1 / std::sqrt(9 * d);
    while (true) {
      const double x = normal();
      const double v = (1 + c * x) * (1 + c * x) * (1 + c * x);
      if (v <= 0) continue;
      if (natural_log(uniform()) < 0.5 * x * x + d - d * v + d * natural_log(v))
        return natural_log(d) + natural_log(v);
    }
  }

 private:
  Philox random_;
  std::uint64_t next_ = 0;
};

/// Where the shares of `count` samples end, in proportions drawn from Dirichlet's distribution.
std::vector<std::int64_t> drawn_ends(std::int64_t count, const Partitioning& how,
                                     const std::string& name) {
  Draws draws(how.seed, name);
  std::vector<double> logs(how.clients);
  for (double& log : logs) log = draws.log_gamma_draw(how.alpha);
  const double most = std::ranges::max(logs);
  double total = 0;
  for (double& log : logs) total += log = exponential(log - most);
  std::vector<std::int64_t> ends;
  double sum = 0;
  for (const double share : logs) {
    sum += share;
    ends.push_back(std::llround(sum / total * static_cast<double>(count)));
  }
  ends.back() = count;
  return ends;
}

void deal(const std::vector<std::int64_t>& samples, const std::vector<std::int64_t>& ends,
          Shares& shares) {
  std::int64_t begin = 0;
  for (std::size_t client = 0; client < ends.size(); ++client) {
    for (; begin < ends[client]; ++begin) shares[client].push_back(samples[begin]);
  }
}

void share_iid(std::span<const int> labels, const Partitioning& how, Shares& shares) {
  const std::vector<std::int64_t> samples = all_samples(labels.size(), how);
  for (std::size_t i = 0; i < samples.size(); ++i) shares[i % shares.size()].push_back(samples[i]);
}

void share_dirichlet(std::span<const int> labels, const Partitioning& how, Shares& shares) {
  const Shares samples = by_label(labels, how);
  for (std::size_t label = 0; label < samples.size(); ++label)
    deal(samples[label],
         drawn_ends(std::ssize(samples[label]), how, detail::concat("shares of label ", label)),
         shares);
}

/// Client i takes the labels i·n … i·n + n-1 of an endless round through a shuffled list of them;
/// the holders of a label have equal parts of it.
void share_labels(std::span<const int> labels, const Partitioning& how, Shares& shares) {
  const Shares samples = by_label(labels, how);
  const std::int64_t count = std::ssize(samples);
  require(how.labels <= count, "edge.labels is ", how.labels, ", but the data have ", count,
          count == 1 ? " label" : " labels",
          "; ask for fewer (text has one for each data.path with a weight)");
  std::vector<std::int64_t> round(count);
  std::iota(round.begin(), round.end(), 0);
  shuffle(round, how.seed, "labels to clients");
  Shares holders(count);
  for (std::int64_t i = 0; i < how.clients * how.labels; ++i)
    holders[round[i % count]].push_back(i / how.labels);
  for (std::int64_t label = 0; label < count; ++label) {
    const std::int64_t holding = std::ssize(holders[label]);
    for (std::int64_t i = 0; i < std::ssize(samples[label]) && holding > 0; ++i)
      shares[holders[label][i % holding]].push_back(samples[label][i]);
  }
}

void share_quantity(std::span<const int> labels, const Partitioning& how, Shares& shares) {
  const std::vector<std::int64_t> samples = all_samples(labels.size(), how);
  deal(samples, drawn_ends(std::ssize(samples), how, "sizes"), shares);
}

struct Rule {
  std::string_view name;
  void (*share)(std::span<const int> labels, const Partitioning& how, Shares& shares);
};
constexpr Rule kRules[] = {{"iid", share_iid},
                           {"dirichlet", share_dirichlet},
                           {"labels", share_labels},
                           {"quantity", share_quantity}};

void give_everyone_one(Shares& shares) {
  for (auto& share : shares) {
    if (!share.empty()) continue;
    auto& most = *std::ranges::max_element(shares, {}, [](const auto& s) { return s.size(); });
    share.push_back(most.back());
    most.pop_back();
  }
}

}  // namespace

std::vector<std::string_view> partition_rules() {
  std::vector<std::string_view> names;
  for (const Rule& rule : kRules) names.push_back(rule.name);
  return names;
}

std::vector<std::vector<std::int64_t>> share_out(std::span<const int> labels,
                                                 const Partitioning& how) {
  require(how.clients <= std::ssize(labels), "edge.clients is ", how.clients, ", but there are ",
          labels.size(), " sequences to share out; take fewer clients, or give more data");
  Shares shares(how.clients);
  const auto* const rule = std::ranges::find(kRules, how.rule, &Rule::name);
  CLEAVE_CHECK(rule != std::end(kRules), "no rule ", how.rule);
  rule->share(labels, how, shares);
  give_everyone_one(shares);
  for (auto& share : shares) std::ranges::sort(share);
  return shares;
}

}  // namespace cleave::edge
