#include "cleave/ops/reference/muon.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cleave/tensor/bf16.h"

namespace cleave::ops::reference {
namespace {

struct Matrix {
  std::int64_t rows;
  std::int64_t columns;
  std::vector<double> at;

  Matrix(std::int64_t r, std::int64_t c) : rows(r), columns(c), at(r * c) {}
  double& operator()(std::int64_t i, std::int64_t j) { return at[i * columns + j]; }
  double operator()(std::int64_t i, std::int64_t j) const { return at[i * columns + j]; }
};

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.columns; ++k)
      for (std::int64_t j = 0; j < b.columns; ++j) out(i, j) += a(i, k) * b(k, j);
  return out;
}

Matrix transposed(const Matrix& a) {
  Matrix out(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) out(j, i) = a(i, j);
  return out;
}

Matrix orthogonal(Matrix x) {
  double sum = 0;
  for (const double value : x.at) sum += value * value;
  const double norm = std::max(std::sqrt(sum), 1e-7);
  for (double& value : x.at) value /= norm;
  for (int i = 0; i < 5; ++i) {
    const Matrix gram = product(x, transposed(x));
    Matrix polynomial = product(gram, gram);
    for (std::size_t k = 0; k < gram.at.size(); ++k)
      polynomial.at[k] = -4.7750 * gram.at[k] + 2.0315 * polynomial.at[k];
    const Matrix moved = product(polynomial, x);
    for (std::size_t k = 0; k < x.at.size(); ++k) x.at[k] = 3.4445 * x.at[k] + moved.at[k];
  }
  return x;
}

}  // namespace

void muon(const MuonArgs& args, const MuonHyper& hyper) {
  Matrix x(args.master.size(0), args.master.size(1));
  for (std::int64_t i = 0; i < args.master.elements(); ++i) {
    const double g = args.gradient.as<float>()[i] * hyper.gradient_scale;
    const double momentum =
        hyper.momentum * args.momentum.as<float>()[i] + (1 - hyper.momentum) * g;
    args.momentum.as<float>()[i] = static_cast<float>(momentum);
    x.at[i] = hyper.momentum * momentum + (1 - hyper.momentum) * g;
  }
  const double size = 0.2 * std::sqrt(static_cast<double>(std::max(x.rows, x.columns)));
  const bool tall = x.rows > x.columns;
  const Matrix update = tall ? transposed(orthogonal(transposed(x))) : orthogonal(x);
  for (std::int64_t i = 0; i < args.master.elements(); ++i) {
    float& master = args.master.as<float>()[i];
    master = static_cast<float>(master * (1 - hyper.lr * hyper.weight_decay) -
                                hyper.lr * size * update.at[i]);
    if (args.copy) args.copy.as<BFloat16>()[i] = to_bf16(master);
  }
}

}  // namespace cleave::ops::reference
