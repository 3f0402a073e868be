#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cleave/plan/time/simulation/moves.h"
#include "cleave/plan/time/simulation/shared_ways.h"
#include "cleave/plan/time/simulation/simulation_context.h"
#include "cleave/plan/time/simulation/timeline.h"

namespace cleave::plan::simulation {

/// The messages of a step. One starts when both ends are posted, or, on edges whose messages may
/// leave early, when it is sent; on edges for which the program has no SEND and RECV, when its
/// producer ends.
class Messages {
 public:
  /// `moves` is what OUT and IN of messages share with those of what a device keeps.
  Messages(const SimulationContext& context, Timeline& timeline, Moves& moves);

  /// SEND or RECV.
  void post(int device, const schedule::Instruction& instruction, double time);

  /// What `instruction` sends at its end where the program does not say so.
  void post_implied(int device, const schedule::Instruction& instruction, double time);

  /// True if `device` must stop in front of `instruction`, a WAIT for a message or what is no WAIT;
  /// the message that it waits for wakes it.
  bool blocks(int device, const schedule::Instruction& instruction, double time);

  /// When something happens on a way that replicas share; kNever if nothing does.
  double next() const { return shared_.next(); }

  /// Goes on to next().
  void advance();

 private:
  /// One microbatch's message over one edge of one replica.
  struct Message {
    double sent = kNotYet;      ///< when its SEND was posted, and its OUT was over
    double received = kNotYet;  ///< when its RECV was posted
    double arrival = kNotYet;   ///< at the receiver, its IN included
    int sender_waits = -1;      ///< device blocked on it, or -1
    int receiver_waits = -1;
  };

  /// A message of which bytes are on a way that replicas share.
  struct OnTheWay {
    Message* message = nullptr;
    schedule::Instruction send;
    schedule::OfReplica of;
    double own_end = 0;  ///< when the sender's own part of the way has let it pass
  };

  Message& message(int edge, schedule::Direction direction, const schedule::OfReplica& of);
  bool blocks_at_wait(int device, const schedule::Instruction& wait, double time);
  bool blocks_at_start(int device, const schedule::Instruction& instruction, double time);
  bool blocks_on(int device, const Message& m, int& waiter, double time);
  void transfer(Message& m, schedule::Instruction send, const schedule::OfReplica& of, double time);
  void arrive(Message& m, schedule::Instruction send, const schedule::OfReplica& of, double begin,
              double arrival);
  int from_of(const schedule::Instruction& send, int replica) const;
  int to_of(const schedule::Instruction& send, int replica) const;

  const SimulationContext& context_;
  Timeline& timeline_;
  Moves& moves_;
  std::vector<Message> messages_;
  std::vector<bool> implied_;  ///< [edge] for which the program has no SEND and RECV
  bool any_implied_ = false;
  std::vector<bool> early_;   ///< [edge] whose messages leave whether their RECV is posted or not
  std::vector<bool> copied_;  ///< [edge] whose sends are complete at once
  std::vector<int> measured_on_;  ///< [edge] the replica whose devices name the shared way
  std::unordered_map<std::int64_t, Allowance> links_;  ///< (from, to)
  SharedWays shared_;
  std::vector<OnTheWay> on_the_way_;  ///< [number of the load]
};

}  // namespace cleave::plan::simulation
