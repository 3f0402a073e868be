#include "cleave/secure/secure_sum.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include "support/errors.h"
#include <gtest/gtest.h>

namespace cleave::secure {
namespace {

Bytes32 bytes_of(const std::string& hex) {
  Bytes32 bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return bytes;
}

// RFC 5869, test case 1: the first 32 bytes of its output.
TEST(Secret, DerivesAsThePublishedVectorSays) {
  const std::vector<std::uint8_t> secret(22, 0x0b);
  std::vector<std::uint8_t> salt(13);
  std::iota(salt.begin(), salt.end(), 0);
  std::string purpose(10, '\0');
  std::iota(purpose.begin(), purpose.end(), '\xf0');
  EXPECT_EQ(derive(secret, salt, purpose),
            bytes_of("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"));
}

// RFC 7748, section 6.1.
TEST(Secret, HasThePublishedOpenKeyAndIsAgreedOnByBoth) {
  const KeyPair alice = key_pair(derive(Bytes32{}, "alice"));
  const KeyPair bob =
      key_pair(bytes_of("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"));
  EXPECT_EQ(bob.open, bytes_of("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
  EXPECT_EQ(agreed_key(alice.own, bob.open, "x"), agreed_key(bob.own, alice.open, "x"));
  EXPECT_NE(agreed_key(alice.own, bob.open, "x"), agreed_key(alice.own, bob.open, "y"));
}

TEST(Secret, OpensOnlyWhatWasNotChanged) {
  const Bytes32 key = derive(Bytes32{}, "key");
  const std::vector<std::uint8_t> message = {1, 2, 3};
  std::vector<std::uint8_t> box = seal(message, key);
  EXPECT_EQ(open_sealed(box, key), message);
  EXPECT_FALSE(open_sealed(box, derive(key, "other")));
  box[1] ^= 1;
  EXPECT_FALSE(open_sealed(box, key));
}

TEST(Secret, GivesOneStreamInAnyPieces) {
  const Bytes32 key = derive(Bytes32{}, "stream");
  std::vector<std::uint64_t> whole(1000);
  fill_stream(key, 0, whole);
  for (const std::uint64_t first : {1, 7, 8, 255, 256, 300}) {
    std::vector<std::uint64_t> part(600);
    fill_stream(key, first, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first)) << first;
  }
}

TEST(SecretShares, GiveTheSecretFromAnyThresholdOfThem) {
  const Bytes32 secret = derive(Bytes32{}, "secret");
  const std::vector<SecretShare> shares = share_secret(secret, 9, 5, derive(secret, "chance"));
  for (unsigned chosen = 0; chosen < 512; ++chosen) {
    std::vector<SecretShare> some;
    for (int i = 0; i < 9; ++i)
      if (chosen >> i & 1) some.push_back(shares[i]);
    if (some.size() == 4 || some.size() == 5) {
      EXPECT_EQ(join_shares(some) == secret, some.size() == 5) << chosen;
    }
  }
}

constexpr int kNumbers = 1500;

/// What client `place` has to add.
std::vector<std::uint64_t> numbers_of(int place) {
  std::vector<std::uint64_t> numbers(kNumbers);
  fill_stream(derive(Bytes32{}, "numbers " + std::to_string(place)), 0, numbers);
  return numbers;
}

struct Sums {
  std::vector<std::uint64_t> plain = std::vector<std::uint64_t>(kNumbers);
  std::vector<std::uint64_t> masked = std::vector<std::uint64_t>(kNumbers);
};

Sums sums_of(const std::vector<bool>& answered) {
  const PlayedSum played(derive(Bytes32{}, "round"), answered);
  Sums sums;
  for (int place = 0; place < std::ssize(answered); ++place) {
    if (!answered[place]) continue;
    std::vector<std::uint64_t> numbers = numbers_of(place);
    for (int i = 0; i < kNumbers; ++i) sums.plain[i] += numbers[i];
    played.client(place).mask("w", 0, std::span(numbers).first(1000));
    played.client(place).mask("w", 1000, std::span(numbers).subspan(1000));
    for (int i = 0; i < kNumbers; ++i) sums.masked[i] += numbers[i];
  }
  EXPECT_NE(sums.plain, sums.masked);
  take_off(played.left(), "w", 0, sums.masked);
  return sums;
}

TEST(SecureSum, IsThePlainOneWhoeverDropsOut) {
  for (const int clients : {3, 10, 60}) {
    std::vector<bool> answered(clients, true);
    const Sums all = sums_of(answered);
    EXPECT_EQ(all.masked, all.plain) << clients;
    for (int place = 1; place < clients; place += 3) answered[place] = false;
    const Sums fewer = sums_of(answered);
    EXPECT_EQ(fewer.masked, fewer.plain) << clients << ", a third gone";
  }
}

TEST(SecureSum, HasNeighboursThatKnowEachOther) {
  const Neighbours neighbours = Neighbours::in_ring(1000);
  EXPECT_LT(neighbours.of[0].size(), 50u) << "not all of them";
  EXPECT_GT(neighbours.threshold, std::ssize(neighbours.of[0]) / 2);
  for (int place = 0; place < 1000; ++place) {
    EXPECT_EQ(neighbours.of[place].size(), neighbours.of[0].size());
    for (const int other : neighbours.of[place])
      EXPECT_TRUE(std::ranges::binary_search(neighbours.of[other], place));
  }
}

TEST(SecureSum, RefusesWithTooFewSharesOfASecret) {
  std::vector<bool> answered(9, false);
  for (int place = 0; place < 4; ++place) answered[place] = true;
  EXPECT_EQ(cleave::testing::user_error([&] { PlayedSum(Bytes32{}, answered); }),
            "of the 9 clients that hold shares of client 0 of the round 4 answered, and its mask "
            "takes 5 of them; let more clients take part, or fewer drop out");
}

// What the server sees of a client that has nothing to say: every byte as often as any other. The
// sum over 256 values of the squared deviations has the mean 255 and the deviation 22.6.
TEST(SecureSum, ShowsNothingOfAnAddend) {
  const PlayedSum played(derive(Bytes32{}, "uniform"), std::vector<bool>(5, true));
  std::vector<std::uint64_t> zeros(1 << 16);
  played.client(2).mask("w", 0, zeros);
  std::array<double, 256> counts{};
  for (const std::uint64_t number : zeros)
    for (int byte = 0; byte < 8; ++byte) ++counts[number >> (8 * byte) & 255];
  const double expected = 8.0 * (1 << 16) / 256;
  double deviation = 0;
  for (const double count : counts) deviation += (count - expected) * (count - expected) / expected;
  EXPECT_GT(deviation, 150);
  EXPECT_LT(deviation, 370);
}

TEST(SecureSum, NoticesALetterThatWasChanged) {
  const Neighbours neighbours = Neighbours::in_ring(3);
  std::vector<MaskingClient> clients;
  std::vector<OpenKeys> keys;
  for (int place = 0; place < 3; ++place) {
    clients.emplace_back(place, derive(Bytes32{}, std::to_string(place)), neighbours);
    keys.push_back(clients[place].open_keys());
  }
  std::vector<ShareLetter> letters = clients[0].meet(keys);
  clients[1].meet(keys);
  letters[0].box[3] ^= 1;
  EXPECT_EQ(cleave::testing::user_error([&] { clients[1].receive(letters[0]); }),
            "the letter of client 0 of the round to client 1 was changed on its way");
}

}  // namespace
}  // namespace cleave::secure
