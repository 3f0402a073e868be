#include "cleave/report/palette.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cleave/base/check.h"

namespace cleave::report {

namespace {

using plan::SpanKind;
using schedule::Op;

struct Look {
  std::string_view name;
  char letter;
  Colour colour;
};

constexpr Look look_of(Paint paint) {
  switch (paint) {
    case Paint::Forward:
      return {"forward", 'F', {0x35, 0x73, 0xb9}};
    case Paint::BackwardInput:
      return {"input gradient", 'I', {0xf0, 0xa7, 0x3a}};
    case Paint::BackwardWeight:
      return {"weight gradient", 'W', {0x4d, 0xb6, 0x99}};
    case Paint::Backward:
      return {"full backward", 'B', {0xcf, 0x5a, 0x36}};
    case Paint::Recompute:
      return {"recompute", 'R', {0xf7, 0xec, 0x82}};
    case Paint::Communication:
      return {"communication", 'C', {0xe3, 0xae, 0xe0}};
    case Paint::Update:
      return {"optimizer", 'S', {0x59, 0x61, 0x6d}};
    case Paint::Wait:
      return {"wait", '.', {0xb4, 0xb9, 0xc1}};
  }
  return {};
}

std::uint8_t towards_white(std::uint8_t value, double share) {
  return static_cast<std::uint8_t>(std::lround(value + (255 - value) * share));
}

}  // namespace

Paint paint_of(const plan::Span& span) {
  switch (span.kind) {
    case SpanKind::Wait:
      return Paint::Wait;
    case SpanKind::Update:
      return Paint::Update;
    case SpanKind::Collective:
    case SpanKind::Transfer:
      return Paint::Communication;
    case SpanKind::Compute:
      break;
  }
  switch (span.instruction.op) {
    case Op::Forward:
      return Paint::Forward;
    case Op::BackwardInput:
      return Paint::BackwardInput;
    case Op::BackwardWeight:
      return Paint::BackwardWeight;
    case Op::Backward:
      return Paint::Backward;
    case Op::Recompute:
      return Paint::Recompute;
    default:
      return Paint::Communication;
  }
}

std::string_view name_of(Paint paint) {
  return look_of(paint).name;
}

char letter_of(Paint paint) {
  return look_of(paint).letter;
}

Colour colour_of(Paint paint, int chunk, int chunks) {
  CLEAVE_CHECK(chunk >= 0 && chunk < chunks, chunk, " of ", chunks);
  const Colour full = look_of(paint).colour;
  const double share = chunks > 1 ? 0.5 * chunk / (chunks - 1) : 0.0;
  return {towards_white(full.red, share), towards_white(full.green, share),
          towards_white(full.blue, share)};
}

Colour text_on(Colour colour) {
  const double luma = 0.299 * colour.red + 0.587 * colour.green + 0.114 * colour.blue;
  return luma < 140 ? Colour{255, 255, 255} : Colour{0x16, 0x1a, 0x20};
}

std::string hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

}  // namespace cleave::report
