#pragma once

#include <cstdint>

namespace cleave {

/// Which of the functions called gelu: x Φ(x) by tanh (GPT-2), x Φ(x) itself (ViT), or x σ(1.702 x)
/// (CLIP).
enum class GeluForm : std::uint8_t { Tanh, Exact, Quick };

/// What a layer of kind "gelu" computes; without attributes it computes the tanh form.
struct GeluAttributes {
  GeluForm form = GeluForm::Tanh;

  friend bool operator==(const GeluAttributes&, const GeluAttributes&) = default;
};

}  // namespace cleave
