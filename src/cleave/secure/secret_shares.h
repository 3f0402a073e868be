#pragma once

#include <span>
#include <vector>

#include "cleave/secure/secret.h"

namespace cleave::secure {

/// A share of a secret: a point of a polynomial for each of its bytes.
struct SecretShare {
  int at = 0;  ///< from 1 to 255
  Bytes32 value = {};
};

/// Shares at 1 … `count`, any `threshold` of which give the secret, and fewer say nothing about it
/// (Shamir, over the field of 256 elements). `seed` is what chance is drawn from: as secret as the
/// secret.
std::vector<SecretShare> share_secret(const Bytes32& secret, int count, int threshold,
                                      const Bytes32& seed);

/// The secret that so many shares, as the threshold was, have in common.
Bytes32 join_shares(std::span<const SecretShare> shares);

}  // namespace cleave::secure
