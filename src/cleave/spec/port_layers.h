#pragma once

#include <cstdint>
#include <string>

#include "cleave/spec/layers.h"

namespace cleave {

/// What a layer of kind "concat_port" needs to know.
struct ConcatAttributes {
  std::int64_t places = 1;  ///< of each row; each has features of its own

  friend bool operator==(const ConcatAttributes&, const ConcatAttributes&) = default;
};

namespace spec {

// Layers that join another segment to the chain of their own, as those in layers.h. What they read
// comes in at a port, by an edge of the graph.

/// kind "add_port": y = x + what comes in at `port`, all [rows, features].
LayerSpec add_port(const std::string& name, const Flow& flow, std::int64_t features,
                   const std::string& port);

/// kind "concat_port": at each place of a row the features of x, then those of `port`. x [rows,
/// places · own], port [rows, places · other] -> y [rows, places · (own + other)].
struct ConcatShape {
  std::int64_t places = 1;
  std::int64_t own = 0;
  std::int64_t other = 0;
};
LayerSpec concat_port(const std::string& name, const Flow& flow, const ConcatShape& shape,
                      const std::string& port);

}  // namespace spec
}  // namespace cleave
