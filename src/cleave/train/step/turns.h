#pragma once

#include <chrono>

#include "cleave/comm/turn_transport.h"
#include "cleave/train/step/round_exchange.h"

namespace cleave::train {

/// Clients that are processes of their own and take turns at the server's layers, as one of the
/// processes has it: the pipeline of the server and of whoever has its turn.
class Turns {
 public:
  /// `patience`: how long the other one may let this device wait within a turn. All processes make
  /// theirs together, and what they are made of must outlive them.
  Turns(comm::Communicator& processes, RoundExchange& exchange, std::chrono::nanoseconds patience);

  /// The devices of the program: the server's and the client's.
  comm::Communicator& pipeline() { return pipeline_; }
  int device() const { return pipeline_.rank(); }

  /// On the server: what follows is this client's turn.
  void begin(int client);

  /// On a client: until its turn begins, however long those of others take.
  void await();

 private:
  RoundExchange& exchange_;
  comm::TurnTransport transport_;
  comm::Communicator pipeline_;
};

}  // namespace cleave::train
