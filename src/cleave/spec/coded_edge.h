#pragma once

#include <cstdint>
#include <string>

#include "cleave/spec/graph.h"

namespace cleave::spec {

/// How a tensor travels over one edge of a graph, and its gradient back.
struct EdgeCodecs {
  std::string forward = "none";  ///< names of codecs(); "none": as it is, in its own format
  std::string backward = "none";

  bool code() const { return forward != "none" || backward != "none"; }
  friend bool operator==(const EdgeCodecs&, const EdgeCodecs&) = default;
};

/// What the kinds "encode" and "decode" carry, the two ends of a coded edge.
struct CodedAttributes {
  EdgeCodecs codecs;
  std::uint64_t seed = 0;  ///< of the chance by which numbers are rounded
  std::string edge;        ///< which of them: no two draw alike

  friend bool operator==(const CodedAttributes&, const CodedAttributes&) = default;
};

/// Bytes of a tensor under a codec.
std::int64_t coded_bytes(const std::string& codec, DType dtype, std::int64_t elements);

/// Codes the edge from `segment` to the next one: the first ends with a layer that encodes its y
/// and decodes the gradient that comes back, the second begins with one that does the opposite.
/// What is joined so computes the same wherever its ends are, on one device or on two.
///
/// Throws UserError if anything else crosses between what is before the edge and what is after it.
void code_edge(Graph& graph, int segment, const CodedAttributes& how);

}  // namespace cleave::spec
