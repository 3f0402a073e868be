#pragma once

#include <cstdint>
#include <vector>

#include "schedule/oracle/layout.h"
#include "schedule/oracle/oracle.h"

namespace cleave::schedule::oracle {

/// Which segments; programs of the tests have fewer than 32.
using Mask = std::uint32_t;

inline constexpr Mask kWhole = Mask{1} << 31;

inline Mask bit(int segment) {
  return Mask{1} << segment;
}

/// All devices in the middle of a step. A plain value: copy it to go back.
class Machine {
 public:
  Machine(const Layout& layout, Messages messages);

  enum class Outcome { Ran, Blocked, Done };

  /// Tries the next instruction of `device`. Throws Fault if it must not run.
  Outcome step(int device);

  /// Every device is at the end of its list.
  bool all_done() const;

  /// Throws Fault unless the step that just ended did all its work.
  void finish() const;

  /// Where every device stands. Two machines that ran one program to the same place are equal.
  std::vector<std::int16_t> place() const;

 private:
  // One stage on one microbatch of one replica.
  struct Unit {
    Mask forward = 0, recompute = 0, input = 0, weight = 0;
  };
  struct Mail {
    bool sent = false, received = false, send_done = false, receive_done = false;
  };
  // Of one segment of one stage on one replica: how often each (replica, microbatch) is in it.
  struct Gradient {
    std::vector<std::uint8_t> contributions;
    std::vector<std::uint8_t> posted;  // what its REDUCE took along
    bool in_flight = false;
    int reduced = 0;
  };
  // What one replica has posted of a stage, in order.
  struct Posting {
    Op op;
    int segment;
    bool done = false;
    int on_host = -1;  // the buffer that it passes through there
  };
  struct TiedGradient {
    int times = 0;
    std::vector<std::uint8_t> contributions;
  };
  struct Memory {
    bool alive = false;
    bool in_flight = false;
    Mask content = 0;
  };

  // Instructions; false: must wait.
  bool execute(int d, const Instruction& i);
  bool forward(int d, const Instruction& i);
  void forward_piece(int d, const Instruction& i, int segment);
  void recompute_piece(int d, const Instruction& i, int segment);
  bool backward_input(int d, const Instruction& i);
  void input_piece(int d, const Instruction& i, int segment);
  void weight_piece(int d, const Instruction& i, int segment);
  void post(int d, const Instruction& i);
  bool wait(int d, const Instruction& i);
  void post_collective(int d, const Instruction& i);
  bool wait_collective(int d, const Instruction& i);
  void post_collection(int d, const Instruction& i);
  void use_collected(int d, const Instruction& i, int segment) const;
  std::vector<Posting>& postings(int replica, int stage);
  bool collective(int d, const Instruction& i);
  void join(int d, const Instruction& i);
  void conclude(const std::vector<int>& members, const Instruction& i);
  void post_move(int d, const Instruction& i);
  void move_message(int d, const Instruction& i);
  void demand_beside(int d, int at, Op op, const Instruction& like) const;
  void wait_move(int d, const Instruction& i);
  void check_moved_bytes(int d, const Instruction& i) const;
  void free_parameters(int d, const Instruction& i);
  void step_weights(int d, const Instruction& i);
  void step_stage(int d, int stage, int segment);
  void run_state_move(int d, const Instruction& i);

  // Values.
  bool inputs_there(int d, const Instruction& i, Direction direction) const;
  void check_gradients(int d) const;
  void check_operands(int d, const Instruction& i) const;
  void check_stage_operands(int d, const Instruction& i) const;
  bool whole(int d, int stage, int segment) const;
  std::vector<int> pieces(const Instruction& i) const;
  Mask all(int stage) const { return (Mask{1} << layout_->program.segments[stage]) - 1; }
  Unit& unit(int d, int stage, int microbatch);
  const Unit& unit(int d, int stage, int microbatch) const;
  const Unit& unit_of(int stage, int cell) const;
  Mail& mail(int d, const Instruction& i);
  Gradient& gradient(int replica, int stage, int segment);
  const Gradient& gradient(int replica, int stage, int segment) const;
  std::vector<int> members(int d, const Instruction& i) const;

  // Memory.
  void begin_instruction(int d);
  void end_instruction(int d);
  void acquire(int d, int buffer);
  void check_static(int d) const;
  void touch(int buffer) const;
  void write(int buffer, Mask part);
  void read(int buffer, Mask part) const;
  int kept(int d, BufferKind kind, const Instruction& i, int level) const;
  int carried(int d, BufferKind kind, int edge, Direction direction, int microbatch) const;
  void keep(int d, const Instruction& i, int segment, bool again);
  int moved(int d, BufferKind kind, const Instruction& i) const;
  void read_kept(int d, const Instruction& i, int level, int segment, BufferKind kind);
  void read_inputs(int d, const Instruction& i, Direction direction);
  void write_outputs(int d, const Instruction& i, Direction direction);
  void hold_gathered(int d, const Instruction& i);
  /// Where a collective passes through the host; -1 if it need not.
  int passing_on_host(int d, Op collective, const Instruction& i) const;

  const Layout* layout_;
  Messages messages_;
  std::vector<std::int16_t> at_;
  std::vector<char> begun_;   // buffers of the instruction are acquired
  std::vector<char> joined_;  // stands at a collective
  std::vector<Unit> units_;
  std::vector<Mail> mail_;
  std::vector<Gradient> gradients_;
  std::vector<TiedGradient> tied_;
  std::vector<Mask> gathered_;  // [device][stage], bit 31: the whole stage; also while it comes
  std::vector<Mask> coming_;    // of those, posted and not waited for
  std::vector<std::vector<Posting>> postings_;  // [stage][replica]
  std::vector<char> refreshed_;                 // [device][stage] how far: posted, done
  std::vector<char> collected_;                 // [device][stage] the same of COLLECT
  std::map<std::tuple<int, int, int, int>, int>
      moves_;  // device, stage, segment, microbatch -> of its four instructions, how many ran
  std::vector<char> normed_, stepped_;                     // [device]
  std::vector<Mask> updated_;                              // [device][stage]
  std::vector<Memory> memory_;                             // [buffer]
  std::vector<std::vector<int>> alive_;                    // [device]
  std::vector<std::vector<int>> shares_;                   // [device] buffers, -1: none declared
  std::vector<int> next_buffer_;                           // [device] into Layout::by_first
  std::vector<std::pair<std::vector<int>, int>> holding_;  // ((device, stage, segment), buffer)
  int max_segments_ = 1;
};

}  // namespace cleave::schedule::oracle
