#include "cleave/train/keep/moving.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "cleave/base/check.h"
#include "cleave/comm/together.h"
#include "cleave/train/keep/sources.h"

namespace cleave::train {
namespace {

constexpr int kMovedTag = 0;
constexpr std::int64_t kMovedAtOnce = std::int64_t{1} << 18;  ///< elements

/// Where stripes of all versions of `step` lie, as if these followed each other.
std::vector<Stripe> holdings_at(const KeptState& kept, std::int64_t step) {
  std::vector<Stripe> all;
  std::int64_t start = 0;
  for (const StateVersion& version : kept.versions()) {
    if (version.step != step) continue;
    for (Stripe stripe : version.image.stripes) {
      stripe.at += start;
      all.push_back(stripe);
    }
    start += version.image.elements();
  }
  return all;
}

std::span<const float> held_run(const KeptState& kept, std::int64_t step, std::int64_t at,
                                std::int64_t length) {
  for (const StateVersion& version : kept.versions()) {
    if (version.step != step) continue;
    if (at < version.image.elements()) return version.image.at(at, length);
    at -= version.image.elements();
  }
  CLEAVE_CHECK(length == 0, "a run that nobody kept");
  return {};
}

std::vector<double> steps_of(const KeptState& kept) {
  std::set<std::int64_t, std::greater<>> steps;
  for (const StateVersion& version : kept.versions()) steps.insert(version.step);
  return {steps.begin(), steps.end()};
}

std::vector<std::vector<Stripe>> gather_stripes(comm::Communicator& everyone,
                                                const std::vector<Stripe>& own) {
  std::vector<std::vector<Stripe>> all;
  for (const std::string& bytes : comm::gather(everyone, to_bytes(own)))
    all.push_back(stripes_in(bytes));
  return all;
}

/// Goes through runs of memory, as if they followed each other.
template <class T>
class RunCursor {
 public:
  explicit RunCursor(std::vector<std::span<T>> runs) : runs_(std::move(runs)) {
    for (const std::span<T> run : runs_) left_ += std::ssize(run);
  }
  std::int64_t left() const { return left_; }

  /// Calls copy(run, its place among them) on the next `elements`.
  template <class Copy>
  void advance(std::int64_t elements, Copy&& copy) {
    for (std::int64_t done = 0; done < elements;) {
      const std::span<T> rest = runs_[run_].subspan(at_);
      const std::size_t count = std::min(rest.size(), static_cast<std::size_t>(elements - done));
      copy(rest.first(count), done);
      done += static_cast<std::int64_t>(count);
      at_ += count;
      if (at_ < runs_[run_].size()) continue;
      ++run_;
      at_ = 0;
    }
    left_ -= elements;
  }

 private:
  std::vector<std::span<T>> runs_;
  std::size_t run_ = 0;
  std::size_t at_ = 0;
  std::int64_t left_ = 0;
};

/// What this member gives to, and gets from, every other, in an order that both know.
struct Handover {
  std::vector<std::vector<std::span<const float>>> gives;  ///< [member]
  std::vector<std::vector<std::span<float>>> gets;         ///< [member]
};

Handover exchange_of(comm::Communicator& everyone, const MovedState& state, const KeptState& kept,
                     const StateImage& wanted) {
  const auto members = static_cast<std::size_t>(everyone.size());
  const auto own = static_cast<std::size_t>(everyone.rank());
  const std::vector<std::vector<Stripe>> wants = gather_stripes(everyone, wanted.stripes);
  const StateSources sources(state.holdings);
  Handover exchange;
  exchange.gives.resize(members);
  exchange.gets.resize(members);
  for (std::size_t member = 0; member < members; ++member) {
    for (const Stripe& stripe : wants[member]) {
      for_each_run(stripe, [&](const TensorRun& run) {
        sources.find(
            run, member,
            [&](std::size_t holder, std::int64_t first, std::int64_t length, std::int64_t at) {
              if (member != own && holder != own) return;
              std::span<const float> from;
              if (holder == own) from = held_run(kept, state.step, at, length);
              const std::span<float> to = member == own
                                              ? wanted.at(run.at + first - run.first, length)
                                              : std::span<float>();
              if (member == own && holder == own) {
                std::ranges::copy(from, to.begin());
              } else if (member == own) {
                exchange.gets[holder].push_back(to);
              } else {
                exchange.gives[member].push_back(from);
              }
            });
      });
    }
  }
  return exchange;
}

/// One round: everybody gives to the member `distance` after it and gets from the one as far
/// before, in pieces, both posted before either is waited for.
void exchange_round(comm::Communicator& everyone, Handover& exchange, int distance) {
  const int members = everyone.size();
  const int to = (everyone.rank() + distance) % members;
  const int from = (everyone.rank() - distance + members) % members;
  RunCursor gives(std::move(exchange.gives[static_cast<std::size_t>(to)]));
  RunCursor gets(std::move(exchange.gets[static_cast<std::size_t>(from)]));
  std::vector<float> sent(static_cast<std::size_t>(std::min(gives.left(), kMovedAtOnce)));
  std::vector<float> come(static_cast<std::size_t>(std::min(gets.left(), kMovedAtOnce)));
  while (gives.left() > 0 || gets.left() > 0) {
    const auto out = static_cast<std::size_t>(std::min(gives.left(), kMovedAtOnce));
    const auto in = static_cast<std::size_t>(std::min(gets.left(), kMovedAtOnce));
    comm::Pending going, coming;
    if (in > 0)
      coming = everyone.receive(std::as_writable_bytes(std::span(come).first(in)), from, kMovedTag);
    gives.advance(static_cast<std::int64_t>(out), [&](std::span<const float> run, std::int64_t at) {
      std::ranges::copy(run, sent.begin() + at);
    });
    if (out > 0) going = everyone.send(std::as_bytes(std::span(sent).first(out)), to, kMovedTag);
    coming.wait();
    gets.advance(static_cast<std::int64_t>(in), [&](std::span<float> run, std::int64_t at) {
      std::copy_n(come.begin() + at, run.size(), run.begin());
    });
    going.wait();
  }
}

}  // namespace

StateSizes state_sizes(const Graph& model, const checkpoint::CheckpointLayout& layout) {
  StateSizes sizes;
  const auto& parameters = layout.parameters();
  for (const SegmentSpec& segment : model.segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        if (!parameter.trainable || !parameter.tied_to.empty()) continue;
        for (const Piece& piece : parameter.pieces) {
          const auto at =
              std::ranges::lower_bound(parameters, piece.name, {}, &checkpoint::Parameter::name);
          const auto index = static_cast<std::int32_t>(at - parameters.begin());
          for (std::int32_t part = -1; part < std::ssize(at->slots); ++part)
            sizes[{part, index}] = at->shape.elements();
        }
      }
    }
  }
  return sizes;
}

std::optional<MovedState> find_state(comm::Communicator& everyone, const KeptState& kept,
                                     const StateSizes& sizes, std::int64_t least) {
  double anything = kept.versions().empty() ? 0 : 1;
  everyone.combine({&anything, 1}, comm::Combine::Max);
  if (anything == 0) return std::nullopt;
  const std::vector<double> own = steps_of(kept);
  std::set<std::int64_t, std::greater<>> steps;
  const std::string text(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(double));
  for (const std::string& bytes : comm::gather(everyone, text)) {
    std::vector<double> theirs(bytes.size() / sizeof(double));
    if (!bytes.empty()) std::memcpy(theirs.data(), bytes.data(), bytes.size());
    for (const double step : theirs) steps.insert(static_cast<std::int64_t>(step));
  }
  for (const std::int64_t step : steps) {
    MovedState state{step, gather_stripes(everyone, holdings_at(kept, step))};
    // The first one knows the model and the last checkpoint.
    double good = everyone.rank() == 0 && step >= least && StateSources(state.holdings).has(sizes);
    everyone.combine({&good, 1}, comm::Combine::Max);
    if (good > 0) return state;
  }
  return std::nullopt;
}

void move_state(comm::Communicator& everyone, const MovedState& state, const KeptState& kept,
                const StateImage& wanted) {
  Handover exchange = exchange_of(everyone, state, kept, wanted);
  for (int distance = 1; distance < everyone.size(); ++distance)
    exchange_round(everyone, exchange, distance);
}

}  // namespace cleave::train
