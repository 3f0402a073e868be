#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/engine/stage/stage.h"
#include "cleave/ops/compute.h"
#include "cleave/schedule/program.h"

namespace cleave::engine {

/// A slice of a tensor of the model, by where it starts: the whole tensor, or what a tensor shard
/// has of it.
struct OwnedPiece {
  std::string name;
  std::int64_t start = 0;

  friend auto operator<=>(const OwnedPiece&, const OwnedPiece&) = default;
};

/// The pieces that `segments` own and train: no copies, a tied weight under the name of its owner.
std::vector<OwnedPiece> owned_pieces(std::span<const SegmentSpec> segments);

/// What NORM makes known to all devices, in f64: whether to stop, the loss of every microbatch of
/// every replica, the squares of every piece of the model.
struct NormNumbers {
  static constexpr std::size_t kStop = 0;
  static constexpr std::size_t kFirstLoss = 1;

  static std::int64_t count(const schedule::Program& program, std::int64_t pieces) {
    return static_cast<std::int64_t>(kFirstLoss) + program.replicas * program.microbatches + pieces;
  }
};

/// Sums of squares of the gradients, one f64 per piece of the model.
///
/// The order is fixed by the model and its tensor shards alone: blocks of 4096 elements within a
/// piece (within a row, if its rows are slices), blocks in order, pieces by name and start.
class GradientNorm {
 public:
  /// `pieces`: those of the whole model, sorted. `stages`: those of this device.
  GradientNorm(std::span<const OwnedPiece> pieces, std::span<Stage* const> stages);

  /// How many pieces the model has.
  std::int64_t pieces() const { return pieces_; }

  /// How many blocks the pieces of a stage have.
  static std::int64_t block_count(const plan::StateLayout& layout);

  /// The sums of squares of the blocks that this device has; zeros for those of its stages that
  /// other replicas have.
  void square(ops::Compute& compute);

  /// The blocks of one stage. Replicas that share gradients add theirs up before add_up.
  std::span<double> blocks(int stage);

  /// squares[p] of every piece of this device's stages; leaves the others alone.
  void add_up(std::span<double> squares) const;

  /// The norm from the squares of all pieces.
  static double norm(std::span<const double> squares);

 private:
  struct Owned {
    View gradient;  ///< [rows, row], rows dense: all of the piece, or this device's share
    std::int64_t index = 0;
    std::int64_t first_block = 0;  ///< of the piece in blocks_
    std::int64_t own_block = 0;    ///< of `gradient` in the piece
    std::int64_t blocks = 0;       ///< of the piece
  };
  static Owned owned_part(const ParameterState& share, const Piece& piece);

  std::vector<Owned> owned_;
  std::vector<double> blocks_;
  std::vector<std::int64_t> first_block_;  ///< [stage], and one past the last
  std::int64_t pieces_ = 0;
};

/// The names of all tensors of a model, trained or not, sorted: what checkpoints and hashes go by.
std::vector<std::string> tensor_names(std::span<const SegmentSpec> segments);

}  // namespace cleave::engine
