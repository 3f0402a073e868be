#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/plan/time/trace.h"

namespace cleave::report {

/// What a box of a timeline looks like: one colour each, the same in every kind of picture.
enum class Paint : std::uint8_t {
  Forward,
  BackwardInput,
  BackwardWeight,
  Backward,
  Recompute,
  Communication,  ///< collectives, and messages on their way
  Update,
  Wait,
};

inline constexpr std::array kPaints = {Paint::Forward,  Paint::BackwardInput, Paint::BackwardWeight,
                                       Paint::Backward, Paint::Recompute,     Paint::Communication,
                                       Paint::Update,   Paint::Wait};

struct Colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;

  friend bool operator==(const Colour&, const Colour&) = default;
};

Paint paint_of(const plan::Span& span);

/// For legends: "forward", "input gradient", …
std::string_view name_of(Paint paint);

/// One letter for terminals: F I W B R C S, and a dot for waits.
char letter_of(Paint paint);

/// The colour of chunk `chunk` among `chunks`; later ones are lighter. Full colours stay apart for
/// the three common kinds of colour blindness, on white and on black (the test measures it).
Colour colour_of(Paint paint, int chunk = 0, int chunks = 1);

/// Black or white, whichever reads better on `colour`.
Colour text_on(Colour colour);

/// "#3573b9"
std::string hex(Colour colour);

}  // namespace cleave::report
