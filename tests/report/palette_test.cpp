#include "cleave/report/palette.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace cleave::report {
namespace {

using Triple = std::array<double, 3>;
using Matrix = std::array<Triple, 3>;

Triple linear(Colour colour) {
  const auto channel = [](double value) {
    value /= 255;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return {channel(colour.red), channel(colour.green), channel(colour.blue)};
}

Triple times(const Matrix& matrix, const Triple& v) {
  Triple out;
  for (int i = 0; i < 3; ++i) {
    out[i] = matrix[i][0] * v[0] + matrix[i][1] * v[1] + matrix[i][2] * v[2];
  }
  return out;
}

Triple lab(const Triple& rgb) {
  constexpr Matrix kToXyz = {
      {{0.4124, 0.3576, 0.1805}, {0.2126, 0.7152, 0.0722}, {0.0193, 0.1192, 0.9505}}};
  const Triple xyz = times(kToXyz, rgb);
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  const double x = f(xyz[0] / 0.95047);
  const double y = f(xyz[1]);
  const double z = f(xyz[2] / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

double distance(Colour a, Colour b, const Matrix& vision) {
  const Triple p = lab(times(vision, linear(a)));
  const Triple q = lab(times(vision, linear(b)));
  return std::hypot(p[0] - q[0], p[1] - q[1], p[2] - q[2]);
}

// Machado, Oliveira and Fernandes (2009), severity 1.0.
constexpr std::array<Matrix, 4> kVisions = {{
    {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {{{0.152286, 1.052583, -0.204868},
      {0.114503, 0.786281, 0.099216},
      {-0.003882, -0.048116, 1.051998}}},
    {{{0.367322, 0.860646, -0.227968},
      {0.280085, 0.672501, 0.047413},
      {-0.011820, 0.042940, 0.968881}}},
    {{{1.255528, -0.076749, -0.178779},
      {-0.078411, 0.930809, 0.147602},
      {0.004733, 0.691367, 0.303900}}},
}};

// A just noticeable difference is about 2.3; 20 is told apart at a glance.
TEST(Palette, ColoursStayApartForColourBlindEyes) {
  for (const Matrix& vision : kVisions) {
    for (Paint a : kPaints) {
      for (Paint b : kPaints) {
        if (a >= b || b == Paint::Wait) continue;  // waits are faint and never carry a number
        EXPECT_GT(distance(colour_of(a), colour_of(b), vision), 20)
            << name_of(a) << " and " << name_of(b);
      }
    }
  }
}

TEST(Palette, LaterChunksAreLighter) {
  const Colour first = colour_of(Paint::Forward, 0, 2);
  const Colour second = colour_of(Paint::Forward, 1, 2);

  EXPECT_EQ(first, colour_of(Paint::Forward));
  EXPECT_GT(second.red, first.red);
  EXPECT_EQ(text_on(first), (Colour{255, 255, 255}));
  EXPECT_NE(text_on(second), (Colour{255, 255, 255}));
}

}  // namespace
}  // namespace cleave::report
