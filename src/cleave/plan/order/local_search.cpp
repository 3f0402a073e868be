#include "cleave/plan/order/local_search.h"

#include <algorithm>
#include <array>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/base/philox.h"
#include "cleave/plan/order/evaluator.h"

namespace cleave::plan::ordering {
namespace {

using Position = Evaluator::Position;

// Draws from a counter, so that the n-th number is the same on every device.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : philox_(seed, "auto schedule") {}
  int below(int bound) { return static_cast<int>(next() % static_cast<std::uint32_t>(bound)); }

 private:
  std::uint32_t next() {
    if (used_ == 4) {
      block_ = philox_.block(index_++);
      used_ = 0;
    }
    return block_[used_++];
  }

  Philox philox_;
  std::uint64_t index_ = 0;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

class LocalSearch {
 public:
  LocalSearch(const Problem& problem, const Solution& start, std::uint64_t seed)
      : problem_(problem), evaluator_(problem), dice_(seed), current_(start), best_(start) {
    CLEAVE_CHECK(evaluator_.run(current_.orders), "the starting orders do not finish");
    evaluator_.critical_path(current_.orders, path_);
    history_.assign(kHistory, current_.score);
  }

  Solution run(std::int64_t moves) {
    for (std::int64_t move = 0; move < moves; ++move) {
      double& past = history_[move % kHistory];
      try_move(std::max(current_.score, past));
      past = std::min(past, current_.score);
    }
    return std::move(best_);
  }

 private:
  static constexpr int kHistory = 300;
  static constexpr int kMostTogether = 3;

  struct Move {
    int device;
    int from;
    int to;
  };

  void try_move(double worst) {
    // Where memory is full, an F moves ahead only together with a W: so often two moves in one.
    Move moves[kMostTogether];
    const int count = 1 + (dice_.below(3) == 0 ? 1 + dice_.below(kMostTogether - 1) : 0);
    bool valid = true;
    for (int k = 0; k < count; ++k) {
      moves[k] = draw();
      shift(current_.orders[moves[k].device], moves[k].from, moves[k].to);
    }
    for (int k = 0; k < count && valid; ++k)
      valid = is_valid(problem_, moves[k].device, current_.orders[moves[k].device]);
    if (valid && evaluator_.run(current_.orders, worst)) {
      current_.makespan = evaluator_.makespan();
      current_.cost = evaluator_.cost();
      current_.score = evaluator_.score();
      if (current_.score < best_.score) best_ = current_;
      evaluator_.critical_path(current_.orders, path_);
      return;
    }
    for (int k = count; k-- > 0;)
      shift(current_.orders[moves[k].device], moves[k].to, moves[k].from);
  }

  // Takes the entry at `from` out and puts it in at `to`.
  static void shift(std::vector<int>& order, int from, int to) {
    const auto begin = order.begin();
    if (from < to)
      std::rotate(begin + from, begin + from + 1, begin + to + 1);
    else
      std::rotate(begin + to, begin + from, begin + from + 1);
  }

  // Mostly on the critical path: an entry ahead, or the one in front of it back. Sometimes
  // anything.
  Move draw() {
    const int kind = dice_.below(8);
    Position place = path_[dice_.below(static_cast<int>(path_.size()))];
    if (kind == 0) {
      place.device = dice_.below(problem_.devices);
      place.at = dice_.below(static_cast<int>(current_.orders[place.device].size()));
    }
    const int size = static_cast<int>(current_.orders[place.device].size());
    const int reach = 1 + dice_.below(dice_.below(4) == 0 ? 24 : 6);
    if (kind % 2 == 0) return {place.device, place.at, std::max(0, place.at - reach)};
    const int from = kind == 1 ? place.at : std::max(0, place.at - 1);
    return {place.device, from, std::min(size - 1, from + reach)};
  }

  const Problem& problem_;
  Evaluator evaluator_;
  Dice dice_;
  Solution current_;
  Solution best_;
  std::vector<Position> path_;
  std::vector<double> history_;
};

}  // namespace

Solution improve(const Problem& problem, const Solution& start, std::int64_t moves,
                 std::uint64_t seed) {
  return LocalSearch(problem, start, seed).run(moves);
}

std::optional<Solution> evaluated(const Problem& problem, Orders orders) {
  Evaluator evaluator(problem);
  if (!evaluator.run(orders)) return std::nullopt;
  return Solution{std::move(orders), evaluator.makespan(), evaluator.cost(), evaluator.score()};
}

}  // namespace cleave::plan::ordering
