#include "cleave/train/step/mask_exchange.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "cleave/base/check.h"
#include "cleave/train/step/round_clients.h"

namespace cleave::train {
namespace {

using secure::OpenKeys;
using secure::RevealedShare;
using secure::ShareLetter;

/// A sealed letter on its way.
using Box = std::array<std::uint8_t, secure::kLetterBytes>;

/// A revealed share on its way: where the polynomial was taken, and its values there.
using ShareBytes = std::array<std::uint8_t, 1 + sizeof(secure::Bytes32)>;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& items) {
  return std::as_bytes(std::span(items));
}
template <class T>
std::span<std::byte> room_of(std::vector<T>& items) {
  return std::as_writable_bytes(std::span(items));
}

/// Where a neighbour stands in the list of `of`.
std::size_t place_among(const std::vector<int>& neighbours, int of) {
  return static_cast<std::size_t>(std::ranges::lower_bound(neighbours, of) - neighbours.begin());
}

/// Whose secrets a client holds shares of, as it reveals them: its neighbours and itself,
/// ascending.
std::vector<int> held_by(const secure::Neighbours& neighbours, int place) {
  std::vector<int> held = neighbours.of[static_cast<std::size_t>(place)];
  held.insert(std::ranges::lower_bound(held, place), place);
  return held;
}

}  // namespace

MaskingMember::MaskingMember(RoundExchange& exchange, int place, int members)
    : exchange_(exchange),
      place_(place),
      neighbours_(secure::Neighbours::in_ring(members)),
      client_(std::make_unique<secure::MaskingClient>(place, secure::random_bytes(), neighbours_)) {
  const std::vector<OpenKeys> own = {client_->open_keys()};
  exchange_.to_server(bytes_of(own));
  std::vector<OpenKeys> keys(static_cast<std::size_t>(members));
  exchange_.from_server(room_of(keys));
  std::vector<Box> boxes;
  for (const ShareLetter& letter : client_->meet(keys)) {
    CLEAVE_CHECK(letter.box.size() == sizeof(Box), letter.box.size(), " bytes in a letter");
    std::ranges::copy(letter.box, boxes.emplace_back().begin());
  }
  exchange_.to_server(bytes_of(boxes));
  exchange_.from_server(room_of(boxes));
  const std::vector<int>& known = neighbours_.of[static_cast<std::size_t>(place)];
  for (std::size_t i = 0; i < known.size(); ++i)
    client_->receive({known[i], place, {boxes[i].begin(), boxes[i].end()}});
}

void MaskingMember::reveal() {
  std::vector<std::uint8_t> said(neighbours_.of.size());
  exchange_.from_server(room_of(said));
  const std::vector<bool> answered(said.begin(), said.end());
  const auto answers = std::ranges::count(answered, true);
  require(answers >= kFewestMasked && answered[static_cast<std::size_t>(place_)],
          "the server says that ", answers, " clients answered",
          answered[static_cast<std::size_t>(place_)] ? "" : ", this one not among them",
          ", and the sum of fewer than ", kFewestMasked,
          " says too much of each; nothing of the masks is revealed");
  std::vector<ShareBytes> shares;
  for (const RevealedShare& share : client_->reveal(answered)) {
    ShareBytes& bytes = shares.emplace_back();
    bytes[0] = static_cast<std::uint8_t>(share.share.at);
    std::ranges::copy(share.share.value, bytes.begin() + 1);
  }
  exchange_.to_server(bytes_of(shares));
}

MaskedRound::MaskedRound(RoundExchange& exchange, std::vector<int> members)
    : exchange_(exchange),
      members_(std::move(members)),
      neighbours_(secure::Neighbours::in_ring(static_cast<int>(members_.size()))),
      keys_(members_.size()) {
  for (std::size_t place = 0; place < members_.size(); ++place)
    exchange_.from_client(members_[place], std::as_writable_bytes(std::span(&keys_[place], 1)));
  for (const int member : members_) exchange_.to_client(member, bytes_of(keys_));
  std::vector<std::vector<Box>> sent;  // [place][neighbour]
  for (std::size_t place = 0; place < members_.size(); ++place) {
    sent.emplace_back(neighbours_.of[place].size());
    exchange_.from_client(members_[place], room_of(sent.back()));
  }
  for (std::size_t place = 0; place < members_.size(); ++place) {
    std::vector<Box> boxes;
    for (const int from : neighbours_.of[place]) {
      const auto sender = static_cast<std::size_t>(from);
      boxes.push_back(sent[sender][place_among(neighbours_.of[sender], static_cast<int>(place))]);
    }
    exchange_.to_client(members_[place], bytes_of(boxes));
  }
}

std::vector<secure::LeftMask> MaskedRound::left(const std::vector<bool>& answered) {
  const std::vector<std::uint8_t> said(answered.begin(), answered.end());
  for (std::size_t place = 0; place < members_.size(); ++place)
    if (answered[place]) exchange_.to_client(members_[place], bytes_of(said));
  std::vector<RevealedShare> revealed;
  for (std::size_t place = 0; place < members_.size(); ++place) {
    if (!answered[place]) continue;
    const std::vector<int> held = held_by(neighbours_, static_cast<int>(place));
    std::vector<ShareBytes> shares(held.size());
    exchange_.from_client(members_[place], room_of(shares));
    for (std::size_t i = 0; i < held.size(); ++i) {
      RevealedShare& share = revealed.emplace_back();
      share.of = held[i];
      share.share.at = shares[i][0];
      std::copy(shares[i].begin() + 1, shares[i].end(), share.share.value.begin());
    }
  }
  return secure::left_masks(neighbours_, keys_, answered, revealed);
}

}  // namespace cleave::train
