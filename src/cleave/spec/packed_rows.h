#pragma once

#include <cstdint>

#include "cleave/spec/graph.h"

namespace cleave {

/// Neighbours of a packed row that share a scale.
inline constexpr std::int64_t kPackedBlock = 64;

/// Words of 32 bits that a packed row of so many numbers takes: an f32 scale for each block, then a
/// byte for each number.
constexpr std::int64_t packed_row_words(std::int64_t numbers) {
  return (numbers + kPackedBlock - 1) / kPackedBlock + (numbers + 3) / 4;
}

/// Bytes of the values of a parameter in a model of `dtype`.
std::int64_t value_bytes(const ParameterSpec& parameter, DType dtype);

/// Holds the token tables of a graph in packed rows: they become layers of kind "packed_embedding".
/// A head that shares its values with one has them in the model's format, a copy of its own.
///
/// Throws UserError if a table learns, or if there is none.
void pack_embeddings(Graph& graph);

}  // namespace cleave
