#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "cleave/comm/mpi/block_watch.h"
#include "cleave/comm/transport.h"

namespace cleave::comm {

/// MPI 3 counts elements in an int, so larger messages travel in pieces.
inline constexpr std::size_t kLargestPiece = std::size_t{1} << 30;

/// Set by end_mpi_waits().
extern std::atomic<bool> mpi_waits_ended;

/// This rank's end of a transport over all ranks, with tag spaces of its own. All ranks make it
/// together, after MPI was started; `largest_piece` must agree.
std::unique_ptr<Transport> make_mpi_transport(MpiPatience patience = {},
                                              std::size_t largest_piece = kLargestPiece);

}  // namespace cleave::comm
