#pragma once

#include <cstdint>

/// Elementary functions in f64 with the same bits on every machine.
///
/// A C library may compute these as it likes and answers in its last bits as its version and the
/// processor please. Whatever reaches weights (initial values, tables of angles, learning rates)
/// comes from here: additions, multiplications and divisions alone, each rounded as IEEE 754
/// demands, none of them contracted. Results are within 2 units in the last place.
namespace cleave {

struct SineCosine {
  double sine;
  double cosine;
};

/// Both functions of an angle in radians, |angle| ≤ 1e8; the error is absolute, 2^-52.
SineCosine sine_cosine(double angle);

/// The natural logarithm of a finite x > 0.
double natural_log(double x);

/// e^x for x ≤ 709; 0 below -708, and NaN stays NaN.
double exponential(double x);

/// base^exponent by squaring, exponent ≥ 0. The error grows with the exponent, as base^exponent
/// itself does with an error of base.
double power(double base, std::int64_t exponent);

}  // namespace cleave
