#pragma once

#include <vector>

#include "cleave/schedule/program.h"

namespace cleave::plan {

inline constexpr int kNowhere = -1;

/// Where the passes of one piece (a stage, or one of its segments) of one microbatch stand in the
/// list of their device.
struct PieceMarks {
  int forward = kNowhere;
  int recompute = kNowhere;
  int input = kNowhere;
  int weight = kNowhere;
  // What F keeps, on its way out and back.
  int out = kNowhere;
  int out_done = kNowhere;
  int in = kNowhere;
  int in_done = kNowhere;

  /// A tensor that waits for a pass which never comes dies with the pass before it.
  int end_of(schedule::Op pass) const {
    if (pass == schedule::Op::BackwardWeight && weight != kNowhere) return weight;
    if (pass != schedule::Op::Forward && input != kNowhere) return input;
    return forward;
  }
};

struct MessageMarks {
  int posted = kNowhere;     ///< RECV
  int completed = kNowhere;  ///< WAIT of the SEND
};

/// Where everything stands in the list of one device.
class ListMarks {
 public:
  ListMarks(const schedule::Program& program, const schedule::Topology& topology, int device);

  /// 1, or the stage's segments where the list splits it.
  int pieces(int stage) const { return pieces_[stage]; }

  const PieceMarks& piece(StageId stage, MicrobatchId microbatch, int piece) const {
    return marks_[static_cast<std::size_t>(first_piece_[stage] + piece) * microbatches_ +
                  microbatch];
  }
  const MessageMarks& message(int edge, schedule::Direction direction,
                              MicrobatchId microbatch) const {
    return messages_[slot(edge, direction, microbatch)];
  }

  // The whole stage: from the first of its pieces to the last.
  int begin_of_forward(StageId stage, MicrobatchId m) const { return piece(stage, m, 0).forward; }
  int end_of_forward(StageId stage, MicrobatchId m) const {
    return piece(stage, m, pieces_[stage] - 1).forward;
  }
  int begin_of_input(StageId stage, MicrobatchId m) const {
    return piece(stage, m, pieces_[stage] - 1).input;
  }
  int end_of_input(StageId stage, MicrobatchId m) const { return piece(stage, m, 0).input; }
  int end_of(schedule::Op pass, StageId stage, MicrobatchId m) const;

 private:
  std::size_t slot(int edge, schedule::Direction direction, MicrobatchId microbatch) const {
    const int way = direction == schedule::Direction::Forward ? 0 : 1;
    return static_cast<std::size_t>(local_edge_[edge] * 2 + way) * microbatches_ + microbatch;
  }
  void note(const schedule::Topology& topology, const schedule::Instruction& i, int at);

  int microbatches_;              ///< of the device
  std::vector<int> pieces_;       ///< [stage]
  std::vector<int> first_piece_;  ///< [stage]
  std::vector<int> local_edge_;   ///< [edge] -> counted among those of this device
  std::vector<PieceMarks> marks_;
  std::vector<MessageMarks> messages_;
};

}  // namespace cleave::plan
