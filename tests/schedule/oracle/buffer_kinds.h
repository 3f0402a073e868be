#pragma once

#include "cleave/schedule/buffer.h"

// What the oracle knows of buffers by their kind. It says it in its own words, not in those of
// schedule/buffer.h, which it is there to contradict.
namespace cleave::schedule::oracle {

/// True if it is x or y of a stage that no edge carries.
bool is_end(const Buffer& b);

bool lies_on_host(const Buffer& b);
bool lies_outside(const Buffer& b);

/// True if an edge carries what is in it.
bool is_edge_buffer(const Buffer& b);

/// Whether buffers of a kind belong to a microbatch.
bool of_microbatch(BufferKind kind);

/// A step may have several of these for one segment, one after the other.
bool comes_again(BufferKind kind);

}  // namespace cleave::schedule::oracle
