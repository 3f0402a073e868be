#include "cleave/secure/secure_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "cleave/base/check.h"

namespace cleave::secure {
namespace {

using detail::concat;

/// Both of a pair see the same two places.
std::string pair_purpose(std::string_view what, int from, int to) {
  return concat(what, " ", from, " ", to);
}

/// One mask for two places, whichever asks.
Bytes32 pair_mask(const Bytes32& own, const Bytes32& open, int place, int other) {
  return agreed_key(own, open,
                    pair_purpose("mask", std::min(place, other), std::max(place, other)));
}

/// The first of two neighbours adds what the second takes away.
bool adds(int place, int other) {
  return place < other;
}

void apply(const Bytes32& key, bool add, std::string_view name, std::uint64_t first,
           std::span<std::uint64_t> numbers) {
  const Bytes32 stream = derive(key, name);
  std::array<std::uint64_t, 512> words;
  for (std::size_t done = 0; done < numbers.size(); done += words.size()) {
    const auto run = numbers.subspan(done, std::min(words.size(), numbers.size() - done));
    fill_stream(stream, first + done, std::span(words).first(run.size()));
    for (std::size_t i = 0; i < run.size(); ++i) run[i] += add ? words[i] : 0 - words[i];
  }
}

/// The secret of `place`, from shares of neighbours.
Bytes32 joined(int place, std::span<const RevealedShare> revealed, const Neighbours& neighbours) {
  std::vector<SecretShare> shares;
  for (const RevealedShare& share : revealed)
    if (share.of == place && std::ssize(shares) < neighbours.threshold)
      shares.push_back(share.share);
  require(std::ssize(shares) == neighbours.threshold, "of the ", neighbours.of[place].size() + 1,
          " clients that hold shares of client ", place, " of the round ", shares.size(),
          " answered, and its mask takes ", neighbours.threshold,
          " of them; let more clients take part, or fewer drop out");
  return join_shares(shares);
}

}  // namespace

Neighbours Neighbours::in_ring(int clients) {
  CLEAVE_CHECK(clients >= 2, clients, " clients");
  const int most = clients - 1;
  const int reach = 8 + static_cast<int>(std::bit_width(static_cast<unsigned>(clients)));
  Neighbours neighbours;
  for (int place = 0; place < clients; ++place) {
    std::set<int> known;
    for (int step = 1; step <= std::min(reach, most); ++step) {
      known.insert((place + step) % clients);
      known.insert((place + clients - step) % clients);
    }
    known.erase(place);
    neighbours.of.emplace_back(known.begin(), known.end());
  }
  neighbours.threshold = (static_cast<int>(neighbours.of[0].size()) + 1) / 2 + 1;
  return neighbours;
}

MaskingClient::MaskingClient(int place, const Bytes32& secret, const Neighbours& neighbours)
    : place_(place),
      neighbours_(neighbours),
      channel_(key_pair(derive(secret, "channel"))),
      mask_(key_pair(derive(secret, "mask"))),
      seed_(derive(secret, "own mask")),
      chance_(derive(secret, "shares")) {}

std::vector<ShareLetter> MaskingClient::meet(std::span<const OpenKeys> keys) {
  const std::vector<int>& known = neighbours_.of[place_];
  const auto count = static_cast<int>(known.size());
  const auto key_shares =
      share_secret(mask_.own, count + 1, neighbours_.threshold, derive(chance_, "key"));
  const auto seed_shares =
      share_secret(seed_, count + 1, neighbours_.threshold, derive(chance_, "seed"));
  held_[place_] = {key_shares.back(), seed_shares.back()};
  std::vector<ShareLetter> letters;
  for (int i = 0; i < count; ++i) {
    const int other = known[i];
    const auto channel = [&](int from, int to) {
      return agreed_key(channel_.own, keys[other].channel, pair_purpose("letter", from, to));
    };
    pairs_[other] = pair_mask(mask_.own, keys[other].mask, place_, other);
    letters_[other] = channel(other, place_);
    std::vector<std::uint8_t> message = {static_cast<std::uint8_t>(key_shares[i].at)};
    for (const SecretShare& share : {key_shares[i], seed_shares[i]})
      message.insert(message.end(), share.value.begin(), share.value.end());
    letters.push_back({place_, other, seal(message, channel(place_, other))});
  }
  return letters;
}

void MaskingClient::receive(const ShareLetter& letter) {
  const auto key = letters_.find(letter.from);
  CLEAVE_CHECK(key != letters_.end() && letter.to == place_, letter.from, " to ", letter.to);
  const auto message = open_sealed(letter.box, key->second);
  require(message && message->size() == 1 + 2 * sizeof(Bytes32), "the letter of client ",
          letter.from, " of the round to client ", place_, " was changed on its way");
  Held& held = held_[letter.from];
  held.key.at = held.seed.at = message->front();
  std::copy_n(message->begin() + 1, sizeof(Bytes32), held.key.value.begin());
  std::copy_n(message->begin() + 1 + sizeof(Bytes32), sizeof(Bytes32), held.seed.value.begin());
}

void MaskingClient::mask(std::string_view name, std::uint64_t first,
                         std::span<std::uint64_t> numbers) const {
  apply(seed_, true, name, first, numbers);
  for (const auto& [other, key] : pairs_) apply(key, adds(place_, other), name, first, numbers);
}

std::vector<RevealedShare> MaskingClient::reveal(const std::vector<bool>& answered) {
  CLEAVE_CHECK(!revealed_, "client ", place_, " was asked for shares twice");
  revealed_ = true;
  std::vector<RevealedShare> shares;
  for (const auto& [other, held] : held_)
    shares.push_back({other, answered[other] ? held.seed : held.key});
  return shares;
}

std::vector<LeftMask> left_masks(const Neighbours& neighbours, std::span<const OpenKeys> keys,
                                 const std::vector<bool>& answered,
                                 std::span<const RevealedShare> revealed) {
  std::vector<LeftMask> masks;
  for (int place = 0; place < std::ssize(answered); ++place) {
    if (answered[place]) {
      masks.push_back({joined(place, revealed, neighbours), true});
      continue;
    }
    const std::vector<int>& known = neighbours.of[place];
    if (std::ranges::none_of(known, [&](int other) { return answered[other]; })) continue;
    const KeyPair pair = key_pair(joined(place, revealed, neighbours));
    require(pair.open == keys[place].mask, "shares of the key of client ", place,
            " of the round do not fit its open key, so its masks cannot be taken off");
    for (const int other : known)
      if (answered[other])
        masks.push_back({pair_mask(pair.own, keys[other].mask, place, other), adds(other, place)});
  }
  return masks;
}

void take_off(std::span<const LeftMask> masks, std::string_view name, std::uint64_t first,
              std::span<std::uint64_t> sums) {
  for (const LeftMask& mask : masks) apply(mask.key, !mask.added, name, first, sums);
}

PlayedSum::PlayedSum(const Bytes32& secret, const std::vector<bool>& answered)
    : neighbours_(Neighbours::in_ring(static_cast<int>(answered.size()))) {
  std::vector<OpenKeys> keys;
  for (int place = 0; place < std::ssize(answered); ++place) {
    clients_.emplace_back(place, derive(secret, concat("client ", place)), neighbours_);
    keys.push_back(clients_.back().open_keys());
  }
  std::vector<ShareLetter> letters;
  for (MaskingClient& client : clients_)
    for (ShareLetter& letter : client.meet(keys)) letters.push_back(std::move(letter));
  for (const ShareLetter& letter : letters) clients_[letter.to].receive(letter);
  std::vector<RevealedShare> revealed;
  for (int place = 0; place < std::ssize(answered); ++place) {
    if (!answered[place]) continue;
    for (RevealedShare& share : clients_[place].reveal(answered)) revealed.push_back(share);
  }
  left_ = left_masks(neighbours_, keys, answered, revealed);
}

}  // namespace cleave::secure
