#pragma once

#include <memory>
#include <vector>

#include "cleave/secure/secure_sum.h"
#include "cleave/train/step/round_exchange.h"

namespace cleave::train {

// How clients that are apart agree on the masks of a round (secure/secure_sum.h). The server
// carries their letters, which it cannot open:
//
//   client -> server   open keys
//   server -> client   those of all
//   client -> server   sealed shares for its neighbours
//   server -> client   its neighbours' for it
//          … clients train, and send masked updates …
//   server -> client   who answered
//   client -> server   a share of one secret of each neighbour
//
// Secrets are drawn anew for every try: neighbours reveal one of two secrets of a client, and a
// round that begins again, without somebody, would have them reveal the other one.

/// A client's half.
class MaskingMember {
 public:
  /// Its place among so many. All members, and the server, agree on masks meanwhile.
  MaskingMember(RoundExchange& exchange, int place, int members);

  const secure::MaskingClient& masks() const { return *client_; }

  /// After its update was sent. Throws UserError if the server says that fewer than kFewestMasked
  /// answered, or that this client did not.
  void reveal();

 private:
  RoundExchange& exchange_;
  int place_;
  secure::Neighbours neighbours_;
  std::unique_ptr<secure::MaskingClient> client_;
};

/// The server's half.
class MaskedRound {
 public:
  /// `members`: clients by place.
  MaskedRound(RoundExchange& exchange, std::vector<int> members);

  /// What is still on the sum; answered [place]. Throws as secure::left_masks() does.
  std::vector<secure::LeftMask> left(const std::vector<bool>& answered);

 private:
  RoundExchange& exchange_;
  std::vector<int> members_;
  secure::Neighbours neighbours_;
  std::vector<secure::OpenKeys> keys_;
};

}  // namespace cleave::train
