#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "cleave/secure/secret.h"
#include "cleave/secure/secret_shares.h"

namespace cleave::secure {

// Sums modulo 2^64 of which the server learns nothing but the sum (Bonawitz et al., 2017, with
// neighbours as in Bell et al., 2020). Every pair of neighbours agrees on a mask that one adds and
// the other takes away, and every client adds one of its own. It and its neighbours hold shares of
// both secrets of a client, and reveal one of them: of one that answered its own mask's, of one
// that did not its key, from which the masks follow that nobody has taken away. All of it holds for
// parties that follow the protocol, however curious.

/// Who masks with whom: places of a round, 0 … clients - 1.
struct Neighbours {
  std::vector<std::vector<int>> of;  ///< [place] -> places, ascending
  int threshold = 1;                 ///< shares that give a secret

  /// A ring in which everyone knows the next ones on both sides; all know all where they are few.
  static Neighbours in_ring(int clients);
};

/// What a client makes known when a round begins.
struct OpenKeys {
  Bytes32 channel = {};  ///< for letters to it
  Bytes32 mask = {};
};

/// Bytes of a letter's box: where the shares were taken, both of them, and a seal of 16.
inline constexpr std::size_t kLetterBytes = 1 + 2 * sizeof(Bytes32) + 16;

/// Shares of both secrets of `from`, which only `to` can open; the server carries it.
struct ShareLetter {
  int from = 0;
  int to = 0;
  std::vector<std::uint8_t> box;
};

/// A share of a secret of `of`: which one follows from whether it answered.
struct RevealedShare {
  int of = 0;
  SecretShare share;
};

/// One client of a round.
class MaskingClient {
 public:
  /// `secret` is for this round alone.
  MaskingClient(int place, const Bytes32& secret, const Neighbours& neighbours);

  OpenKeys open_keys() const { return {channel_.open, mask_.open}; }

  /// Learns the keys of all, by place; gives a letter for each neighbour.
  std::vector<ShareLetter> meet(std::span<const OpenKeys> keys);

  /// Throws UserError if it was changed on its way.
  void receive(const ShareLetter& letter);

  /// Masks numbers `first`, `first` + 1, … of what is called `name`.
  void mask(std::string_view name, std::uint64_t first, std::span<std::uint64_t> numbers) const;

  /// What the server needs to take masks off the sum of those that answered. Once in a round: two
  /// answers could give away both secrets of a neighbour.
  std::vector<RevealedShare> reveal(const std::vector<bool>& answered);

 private:
  struct Held {
    SecretShare key;
    SecretShare seed;
  };

  int place_;
  const Neighbours& neighbours_;
  KeyPair channel_;
  KeyPair mask_;
  Bytes32 seed_;
  Bytes32 chance_;
  std::map<int, Bytes32> letters_;  ///< [neighbour] -> what letters from it are sealed with
  std::map<int, Bytes32> pairs_;    ///< [neighbour] -> the mask in common
  std::map<int, Held> held_;        ///< [neighbour, or itself] -> shares of its secrets
  bool revealed_ = false;
};

/// A stream that is still on the sum, or missing from it.
struct LeftMask {
  Bytes32 key;
  bool added = false;  ///< it was added, so it is taken away
};

/// The server's part: what stays on the sum of those that answered. Throws UserError if so few
/// answered that a secret cannot be joined, or if shares do not fit the keys.
std::vector<LeftMask> left_masks(const Neighbours& neighbours, std::span<const OpenKeys> keys,
                                 const std::vector<bool>& answered,
                                 std::span<const RevealedShare> revealed);

/// Takes them off numbers `first`, … of the sum of what is called `name`.
void take_off(std::span<const LeftMask> masks, std::string_view name, std::uint64_t first,
              std::span<std::uint64_t> sums);

/// All parties of a round in one process, each with its own secret, derived from `secret`.
class PlayedSum {
 public:
  /// answered [place]: whether it sends what it masked. Throws as left_masks() does.
  PlayedSum(const Bytes32& secret, const std::vector<bool>& answered);
  PlayedSum(const PlayedSum&) = delete;  // clients refer to the neighbours
  PlayedSum& operator=(const PlayedSum&) = delete;

  const MaskingClient& client(int place) const { return clients_[place]; }
  std::span<const LeftMask> left() const { return left_; }

 private:
  Neighbours neighbours_;
  std::vector<MaskingClient> clients_;
  std::vector<LeftMask> left_;
};

}  // namespace cleave::secure
