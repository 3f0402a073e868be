#include "cleave/ops/reference/norm.h"

#include <cmath>
#include <vector>

#include "cleave/ops/reference/element.h"

namespace cleave::ops::reference {
namespace {

double factor(ConstView weight, NormWeight form, std::int64_t i) {
  return get(weight, {i}) + (form == NormWeight::OnePlus ? 1.0 : 0.0);
}

}  // namespace

void layernorm(const LayernormArgs& args) {
  const std::int64_t hidden = args.x.size(1);
  for (std::int64_t t = 0; t < args.x.size(0); ++t) {
    double mean = 0;
    for (std::int64_t i = 0; i < hidden; ++i) mean += get(args.x, {t, i});
    mean /= static_cast<double>(hidden);
    double variance = 0;
    for (std::int64_t i = 0; i < hidden; ++i) variance += std::pow(get(args.x, {t, i}) - mean, 2);
    variance /= static_cast<double>(hidden);
    const double rstd = 1 / std::sqrt(variance + args.eps);
    for (std::int64_t i = 0; i < hidden; ++i) {
      const double xhat = (get(args.x, {t, i}) - mean) * rstd;
      set(args.y, {t, i}, xhat * get(args.weight, {i}) + get(args.bias, {i}));
    }
    if (args.mean) set(args.mean, {t}, mean);
    if (args.rstd) set(args.rstd, {t}, rstd);
  }
}

void layernorm_backward(const LayernormBackwardArgs& args) {
  const std::int64_t hidden = args.x.size(1);
  std::vector<double> dweight(hidden);
  std::vector<double> dbias(hidden);
  for (std::int64_t t = 0; t < args.x.size(0); ++t) {
    const double rstd = get(args.rstd, {t});
    const auto xhat = [&](std::int64_t i) {
      return (static_cast<double>(get(args.x, {t, i})) - get(args.mean, {t})) * rstd;
    };
    const auto g = [&](std::int64_t i) {
      return static_cast<double>(get(args.dy, {t, i})) * get(args.weight, {i});
    };
    double mean_g = 0;
    double mean_g_xhat = 0;
    for (std::int64_t i = 0; i < hidden; ++i) {
      mean_g += g(i) / static_cast<double>(hidden);
      mean_g_xhat += g(i) * xhat(i) / static_cast<double>(hidden);
      dweight[i] += get(args.dy, {t, i}) * xhat(i);
      dbias[i] += get(args.dy, {t, i});
    }
    for (std::int64_t i = 0; i < hidden; ++i) {
      const double residual = args.add ? get(args.add, {t, i}) : 0;
      set(args.dx, {t, i}, rstd * (g(i) - mean_g - xhat(i) * mean_g_xhat) + residual);
    }
  }
  for (std::int64_t i = 0; i < hidden; ++i) {
    set(args.dweight, {i}, dweight[i]);
    set(args.dbias, {i}, dbias[i]);
  }
}

void rmsnorm(const RmsnormArgs& args) {
  const std::int64_t hidden = args.x.size(1);
  for (std::int64_t t = 0; t < args.x.size(0); ++t) {
    double squares = 0;
    for (std::int64_t i = 0; i < hidden; ++i) squares += std::pow(get(args.x, {t, i}), 2);
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(hidden) + args.eps);
    for (std::int64_t i = 0; i < hidden; ++i) {
      set(args.y, {t, i}, get(args.x, {t, i}) * rstd * factor(args.weight, args.form, i));
    }
    if (args.rstd) set(args.rstd, {t}, rstd);
  }
}

void rmsnorm_backward(const RmsnormBackwardArgs& args) {
  const std::int64_t hidden = args.x.size(1);
  std::vector<double> dweight(hidden);
  for (std::int64_t t = 0; t < args.x.size(0); ++t) {
    const double rstd = get(args.rstd, {t});
    const auto xhat = [&](std::int64_t i) { return get(args.x, {t, i}) * rstd; };
    const auto g = [&](std::int64_t i) {
      return static_cast<double>(get(args.dy, {t, i})) * factor(args.weight, args.form, i);
    };
    double mean_g_xhat = 0;
    for (std::int64_t i = 0; i < hidden; ++i) {
      mean_g_xhat += g(i) * xhat(i) / static_cast<double>(hidden);
      dweight[i] += get(args.dy, {t, i}) * xhat(i);
    }
    for (std::int64_t i = 0; i < hidden; ++i) {
      const double residual = args.add ? get(args.add, {t, i}) : 0;
      set(args.dx, {t, i}, rstd * (g(i) - xhat(i) * mean_g_xhat) + residual);
    }
  }
  for (std::int64_t i = 0; i < hidden; ++i) set(args.dweight, {i}, dweight[i]);
}

}  // namespace cleave::ops::reference
