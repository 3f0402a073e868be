#include "cleave/train/evaluate/inverter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "cleave/base/check.h"
#include "cleave/base/permutation.h"
#include "cleave/base/philox.h"
#include "cleave/ops/activation.h"
#include "cleave/ops/adamw.h"
#include "cleave/ops/cross_entropy.h"
#include "cleave/ops/elementwise.h"
#include "cleave/ops/matmul.h"
#include "cleave/ops/reduce.h"
#include "cleave/tensor/arena.h"
#include "cleave/train/evaluate/learned_linear.h"

namespace cleave::train {
namespace {

constexpr std::int64_t kInverterHidden = 256;
constexpr std::int64_t kInverterBatch = 64;
constexpr std::int64_t kInverterSteps = 1500;
constexpr double kInverterRate = 2e-3;

/// Numbers less their mean and over their deviation, column by column, both those of some rows.
class ColumnScale {
 public:
  ColumnScale(const std::vector<float>& values, std::int64_t width)
      : width_(static_cast<std::size_t>(width)), mean_(width_), deviation_(width_) {
    const auto rows = static_cast<double>(values.size() / width_);
    std::vector<double> sums(width_), squares(width_);
    for (std::size_t i = 0; i < values.size(); ++i) sums[i % width_] += values[i];
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double off = values[i] - sums[i % width_] / rows;
      squares[i % width_] += off * off;
    }
    for (std::size_t column = 0; column < width_; ++column) {
      const double deviation = std::sqrt(squares[column] / rows);
      mean_[column] = static_cast<float>(sums[column] / rows);
      deviation_[column] = deviation > 0 ? static_cast<float>(deviation) : 1.0f;
    }
  }

  void apply(std::vector<float>& values) const {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (values[i] - mean_[i % width_]) / deviation_[i % width_];
  }

 private:
  std::size_t width_;
  std::vector<float> mean_, deviation_;
};

/// Ids as numbers from 0 on: those that can be learned. An id that was never seen is -1.
std::vector<std::int32_t> renumbered_ids(const std::vector<std::int32_t>& ids,
                                         const std::map<std::int32_t, std::int32_t>& numbers) {
  std::vector<std::int32_t> out;
  for (const std::int32_t id : ids) {
    const auto found = numbers.find(id);
    out.push_back(found == numbers.end() ? -1 : found->second);
  }
  return out;
}

/// Copies some rows of a matrix of `width` columns.
template <class T>
void take_seen_rows(const std::vector<T>& from, std::int64_t width,
                    std::span<const std::int64_t> rows, T* to) {
  for (const std::int64_t row : rows) {
    std::copy_n(from.begin() + row * width, width, to);
    to += width;
  }
}

class Inverter {
 public:
  Inverter(ops::Compute& compute, const SeenRows& known, std::int64_t outputs, std::uint64_t seed)
      : compute_(compute),
        known_(known),
        seed_(seed),
        first_(known.width, kInverterHidden, seed, "first"),
        second_(kInverterHidden, outputs, seed, "second"),
        x_(kInverterBatch, known.width),
        before_(kInverterBatch, kInverterHidden),
        after_(kInverterBatch, kInverterHidden),
        hidden_gradient_(kInverterBatch, kInverterHidden),
        out_(kInverterBatch, outputs),
        scratch_(scratch_bytes()) {
    scratch_.acquire(0, scratch_.bytes());
    compute_.set_scratch({scratch_.at(0), static_cast<std::size_t>(scratch_.bytes())});
  }
  ~Inverter() { compute_.set_scratch({}); }
  Inverter(const Inverter&) = delete;
  Inverter& operator=(const Inverter&) = delete;

  void learn() {
    const Permutation order(static_cast<std::uint64_t>(known_.rows()), seed_, "inverter");
    std::vector<std::int64_t> rows(kInverterBatch);
    for (std::int64_t step = 0; step < kInverterSteps; ++step) {
      for (std::int64_t i = 0; i < kInverterBatch; ++i) {
        const std::int64_t at = step * kInverterBatch + i;
        rows[static_cast<std::size_t>(i)] =
            static_cast<std::int64_t>(order.at(static_cast<std::uint64_t>(at / known_.rows()),
                                               static_cast<std::uint64_t>(at % known_.rows())));
      }
      run(known_, rows);
      write_gradient(rows);
      learn_from(step);
    }
  }

  /// What it makes of rows: f32 [rows, outputs], valid until the next call.
  View run(const SeenRows& of, std::span<const std::int64_t> rows) {
    take_seen_rows(of.seen, of.width, rows, x_.elements.data());
    first_.forward(compute_, x_.view(), before_.view());
    ops::gelu(compute_, before_.view(), after_.view());
    second_.forward(compute_, after_.view(), out_.view());
    return out_.view();
  }

 private:
  std::int64_t scratch_bytes() {
    std::int64_t most = 64;
    const auto need = [&](ConstView a, ConstView b, View out) {
      most = std::max(most, ops::matmul_scratch_bytes(compute_, ops::describe(a, b, out)));
    };
    need(x_.view(), first_.weight.value.view(), before_.view());
    need(after_.view(), second_.weight.value.view(), out_.view());
    need(x_.view().transposed(), before_.view(), first_.weight.gradient.view());
    need(after_.view().transposed(), out_.view(), second_.weight.gradient.view());
    need(out_.view(), second_.weight.value.view().transposed(), hidden_gradient_.view());
    return most;
  }

  /// out becomes its own gradient.
  void write_gradient(std::span<const std::int64_t> rows) {
    constexpr float kShare = 1.0f / kInverterBatch;
    if (known_.ids.empty()) {
      HeapTensor wanted(kInverterBatch, known_.values_width);
      take_seen_rows(known_.values, known_.values_width, rows, wanted.elements.data());
      const float share = kShare / static_cast<float>(known_.values_width);
      return ops::weighted_sum(compute_, {out_.view(), share}, {wanted.view(), -share},
                               out_.view());
    }
    std::vector<std::int32_t> wanted(kInverterBatch);
    take_seen_rows(known_.ids, 1, rows, wanted.data());
    HeapTensor losses(1, kInverterBatch), lse(1, kInverterBatch);
    const ConstView targets(reinterpret_cast<const std::byte*>(wanted.data()), DType::I32,
                            Shape{kInverterBatch});
    ops::cross_entropy(compute_, out_.view(), targets, losses.flat(), lse.flat());
    ops::cross_entropy_backward(compute_, {out_.view()}, targets, lse.flat(), kShare);
  }

  void learn_from(std::int64_t step) {
    second_.backward_weight(compute_, after_.view(), out_.view());
    ops::matmul(compute_, out_.view(), second_.weight.value.view().transposed(),
                hidden_gradient_.view());
    ops::gelu_backward(compute_, before_.view(), hidden_gradient_.view(), hidden_gradient_.view());
    first_.backward_weight(compute_, x_.view(), hidden_gradient_.view());
    decay1_ *= 0.9;
    decay2_ *= 0.999;
    const double left = 1 - static_cast<double>(step) / static_cast<double>(kInverterSteps);
    const ops::AdamwHyper hyper{.lr = kInverterRate * left,
                                .weight_decay = 0.01,
                                .bias_correction1 = 1 - decay1_,
                                .bias_correction2 = 1 - decay2_};
    first_.update(compute_, hyper);
    second_.update(compute_, hyper);
  }

  ops::Compute& compute_;
  const SeenRows& known_;
  std::uint64_t seed_;
  LearnedLinear first_, second_;
  HeapTensor x_, before_, after_, hidden_gradient_, out_;
  Arena scratch_;
  double decay1_ = 1, decay2_ = 1;
};

/// Calls each(row, what the inverter makes of it) for every row.
template <class Each>
void invert_all(Inverter& inverter, const SeenRows& rows, const Each& each) {
  std::vector<std::int64_t> batch(kInverterBatch);
  for (std::int64_t first = 0; first < rows.rows(); first += kInverterBatch) {
    const std::int64_t count = std::min(kInverterBatch, rows.rows() - first);
    for (std::int64_t i = 0; i < kInverterBatch; ++i)
      batch[static_cast<std::size_t>(i)] = first + std::min(i, count - 1);
    const View out = inverter.run(rows, batch);
    for (std::int64_t i = 0; i < count; ++i)
      each(first + i, std::span<const float>(out.as<float>() + i * out.size(1),
                                             static_cast<std::size_t>(out.size(1))));
  }
}

Inversion find_ids(ops::Compute& compute, SeenRows known, SeenRows hidden, std::uint64_t seed) {
  std::map<std::int32_t, std::int32_t> numbers;
  for (const std::int32_t id : known.ids) numbers.emplace(id, 0);
  std::int32_t next = 0;
  for (auto& [id, number] : numbers) number = next++;
  known.ids = renumbered_ids(known.ids, numbers);
  hidden.ids = renumbered_ids(hidden.ids, numbers);
  std::vector<std::int64_t> counts(numbers.size());
  for (const std::int32_t id : known.ids) ++counts[static_cast<std::size_t>(id)];
  const auto commonest =
      static_cast<std::int32_t>(std::ranges::max_element(counts) - counts.begin());

  Inverter inverter(compute, known, std::ssize(numbers), seed);
  inverter.learn();
  std::int64_t found = 0;
  invert_all(inverter, hidden, [&](std::int64_t row, std::span<const float> scores) {
    const auto best = std::ranges::max_element(scores) - scores.begin();
    found += best == hidden.ids[static_cast<std::size_t>(row)];
  });
  const auto rows = static_cast<double>(hidden.rows());
  return {.found = static_cast<double>(found) / rows,
          .guessed = static_cast<double>(std::ranges::count(hidden.ids, commonest)) / rows};
}

Inversion find_values(ops::Compute& compute, SeenRows known, SeenRows hidden, std::uint64_t seed) {
  const ColumnScale scale(known.values, known.values_width);
  scale.apply(known.values);
  scale.apply(hidden.values);
  Inverter inverter(compute, known, known.values_width, seed);
  inverter.learn();
  double wrong = 0, all = 0;  // the mean of the known ones is 0
  invert_all(inverter, hidden, [&](std::int64_t row, std::span<const float> found) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double wanted = hidden.values[static_cast<std::size_t>(row) * found.size() + i];
      wrong += (found[i] - wanted) * (found[i] - wanted);
      all += wanted * wanted;
    }
  });
  return {.found = all > 0 ? std::max(0.0, 1 - wrong / all) : 0, .guessed = 0};
}

}  // namespace

SeenRows SeenRows::part(std::int64_t first, std::int64_t count) const {
  SeenRows out{.width = width, .values_width = values_width};
  out.seen.assign(seen.begin() + first * width, seen.begin() + (first + count) * width);
  if (!ids.empty()) out.ids.assign(ids.begin() + first, ids.begin() + first + count);
  out.values.assign(values.begin() + first * values_width,
                    values.begin() + (first + count) * values_width);
  return out;
}

Inversion invert(ops::Compute& compute, const SeenRows& known, const SeenRows& hidden,
                 std::uint64_t seed) {
  CLEAVE_CHECK(known.rows() > 0 && hidden.rows() > 0, "an inverter without rows");
  const ColumnScale scale(known.seen, known.width);
  SeenRows own = known, others = hidden;
  scale.apply(own.seen);
  scale.apply(others.seen);
  return known.ids.empty() ? find_values(compute, std::move(own), std::move(others), seed)
                           : find_ids(compute, std::move(own), std::move(others), seed);
}

}  // namespace cleave::train
