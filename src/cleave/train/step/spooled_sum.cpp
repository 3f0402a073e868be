#include "cleave/train/step/spooled_sum.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "cleave/train/step/round_slots.h"
#include "cleave/train/step/slot_elements.h"

namespace cleave::train {
namespace {

/// A place in 32 bits and a number.
constexpr std::size_t kPairBytes = 8;

}  // namespace

std::int64_t update_bytes(const EdgeConfig& edge, std::int64_t elements) {
  return edge.secure ? elements * 8 : find_codec(edge.codec)->bytes(elements);
}

SpooledSum::SpooledSum(const Config& config, const RoundExchange::Tensors& tensors)
    : config_(config),
      outer_(*edge::find_outer(config.edge.outer)),
      hyper_(config.edge.outer_hyper()),
      codec_(*find_codec(config.edge.codec)),
      spool_(std::filesystem::path(config.train.out) / "spool") {
  CLEAVE_CHECK(codec_.block == 0 || kPiece % codec_.block == 0, codec_.name, " has blocks of ",
               codec_.block);
  for (const engine::TensorState* state : tensors) {
    const auto slot = [&](bool kept, std::string_view name) {
      return kept ? whole_elements(*state, slot_of(*state, name)) : std::span<float>();
    };
    all_.push_back({.state = state,
                    .weights = whole_elements(*state, state->master),
                    .momentum = slot(outer_.momentum, kMomentumSlot),
                    .squares = slot(outer_.squares, kSquaresSlot)});
  }
}

void SpooledSum::begin_round(const RoundExchange::Tensors& averaged) {
  spool_.begin_round();
  arrived_.clear();
  tensors_.clear();
  bytes_ = 0;
  for (const engine::TensorState* state : averaged) {
    tensors_.push_back(*std::ranges::find(all_, state, &Tensor::state));
    tensors_.back().offset = bytes_;
    bytes_ += update_bytes(config_.edge, state->elements());
  }
}

std::vector<ClientResult> SpooledSum::receive(RoundExchange& exchange, std::span<const int> clients,
                                              std::span<const double> weights) {
  for (std::size_t i = 0; i < clients.size(); ++i) {
    spool_.open(bytes_);
    arrived_.push_back({.client = clients[i], .weight = weights[i]});
  }
  return exchange.receive_turns(
      clients, bytes_,
      [&](std::size_t place, std::span<const std::byte> piece) { spool_.append(place, piece); });
}

template <class Visit>
void SpooledSum::for_each_piece(const Tensor& tensor, Visit&& visit) {
  for (Arrived& client : arrived_) client.read = 0;
  const auto elements = std::ssize(tensor.weights);
  for (std::int64_t first = 0; first < elements; first += kPiece)
    visit(Piece{&tensor, first, static_cast<std::size_t>(std::min(kPiece, elements - first))});
}

/// Those of a client that lie in the piece, by their places; all others did not change.
void SpooledSum::read_pairs(std::size_t arrival, const Piece& piece, std::int64_t bytes) {
  Arrived& client = arrived_[arrival];
  const std::int64_t pairs = bytes / static_cast<std::int64_t>(kPairBytes) - client.read;
  const auto some = std::min(static_cast<std::size_t>(pairs), piece.count);
  read_.resize(some * kPairBytes);
  spool_.read(arrival, piece.tensor->offset + client.read * static_cast<std::int64_t>(kPairBytes),
              read_);
  std::ranges::fill(values_, 0.0f);
  for (std::size_t i = 0; i < some; ++i) {
    std::uint32_t place = 0;
    std::memcpy(&place, read_.data() + i * kPairBytes, sizeof place);
    const std::int64_t at = place - piece.first;
    if (at >= static_cast<std::int64_t>(piece.count)) break;
    require(at >= 0, "client ", client.client, " sent places of ", piece.tensor->state->name,
            " that do not ascend; its update is none of this run's");
    std::memcpy(&values_[static_cast<std::size_t>(at)], read_.data() + i * kPairBytes + 4,
                sizeof(float));
    ++client.read;
  }
}

/// What a client changed the elements of a piece by.
std::span<const double> SpooledSum::changes(std::size_t arrival, const Piece& piece) {
  values_.resize(piece.count);
  changes_.resize(piece.count);
  const Tensor& tensor = *piece.tensor;
  if (codec_.block == 0) {
    read_pairs(arrival, piece, codec_.bytes(std::ssize(tensor.weights)));
  } else {
    read_.resize(static_cast<std::size_t>(codec_.bytes(static_cast<std::int64_t>(piece.count))));
    spool_.read(arrival, tensor.offset + codec_.bytes(piece.first), read_);
    codec_.decode(read_, values_);
  }
  const bool whole = config_.edge.codec == "none";  // the client's weights, not its update
  const float* start = tensor.weights.data() + piece.first;
  for (std::size_t i = 0; i < piece.count; ++i)
    changes_[i] = whole ? static_cast<double>(values_[i]) - start[i] : values_[i];
  return changes_;
}

/// Tensors in the order of their names, in which UpdateSum adds numbers of them up.
std::vector<std::size_t> SpooledSum::by_name() const {
  std::vector<std::size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return tensors_[i].state->name; });
  return order;
}

/// Updates that are longer than edge.clip count for less.
void SpooledSum::clip_weights() {
  for (std::size_t arrival = 0; arrival < arrived_.size(); ++arrival) {
    double sum = 0;
    for (const std::size_t i : by_name()) {
      double squares = 0;
      for_each_piece(tensors_[i], [&](const Piece& piece) {
        for (const double change : changes(arrival, piece)) squares += change * change;
      });
      sum += squares;
    }
    const double norm = std::sqrt(sum);
    if (norm > config_.edge.clip) arrived_[arrival].weight *= config_.edge.clip / norm;
  }
}

/// The sums of a piece, as bits of fixed point or of f64.
void SpooledSum::add_up(const Piece& piece) {
  const EdgeConfig& edge = config_.edge;
  sums_.assign(piece.count, 0);
  for (std::size_t arrival = 0; arrival < arrived_.size(); ++arrival) {
    const Arrived& client = arrived_[arrival];
    if (edge.secure) {
      read_.resize(piece.count * 8);
      spool_.read(arrival, piece.tensor->offset + 8 * piece.first, read_);
      for (std::size_t i = 0; i < piece.count; ++i) {
        std::uint64_t number = 0;
        std::memcpy(&number, read_.data() + 8 * i, sizeof number);
        sums_[i] += number;
      }
      continue;
    }
    const std::span<const double> moved = changes(arrival, piece);
    for (std::size_t i = 0; i < piece.count; ++i) {
      const double change = client.weight * moved[i];
      if (edge.fixed_sums) {
        sums_[i] += fixed_change(change, piece.tensor->state->name, client.client);
      } else {
        sums_[i] = std::bit_cast<std::uint64_t>(std::bit_cast<double>(sums_[i]) + change);
      }
    }
  }
}

void SpooledSum::follow(const Piece& piece, std::size_t begin, std::span<const double> updates) {
  const Tensor& tensor = *piece.tensor;
  const auto run = [&](std::span<float> elements) {
    return elements.empty()
               ? elements
               : elements.subspan(static_cast<std::size_t>(piece.first) + begin, updates.size());
  };
  outer_.update({.weights = run(tensor.weights),
                 .update = updates,
                 .momentum = run(tensor.momentum),
                 .squares = run(tensor.squares)},
                hyper_);
}

void SpooledSum::follow_sum(const Piece& piece, const RoundEnd& end) {
  add_up(piece);
  const std::string& name = piece.tensor->state->name;
  const auto key = noise_key(end, name);
  std::array<double, kMeanElements> updates;
  for (std::size_t begin = 0; begin < piece.count; begin += kMeanElements) {
    const std::size_t count = std::min(kMeanElements, piece.count - begin);
    mean_changes(config_.edge, end, name, key, static_cast<std::uint64_t>(piece.first) + begin,
                 std::span(sums_).subspan(begin, count), updates);
    follow(piece, begin, std::span(updates).first(count));
  }
}

/// What a robust rule makes of the updates; without one for elements, that of one client.
void SpooledSum::follow_kept(const Piece& piece, std::size_t chosen) {
  kept_.resize(arrived_.size());
  for (std::size_t arrival = 0; arrival < arrived_.size(); ++arrival) {
    const std::span<const double> moved = changes(arrival, piece);
    kept_[arrival].resize(piece.count);
    for (std::size_t i = 0; i < piece.count; ++i) kept_[arrival][i] = static_cast<float>(moved[i]);
  }
  const auto faulty = static_cast<std::size_t>(config_.edge.faulty);
  std::vector<float> values(arrived_.size());
  std::vector<double> updates(piece.count);
  for (std::size_t i = 0; i < piece.count; ++i) {
    for (std::size_t arrival = 0; arrival < values.size(); ++arrival)
      values[arrival] = kept_[arrival][i];
    updates[i] = outer_.middle != nullptr ? outer_.middle(values, faulty) : values[chosen];
  }
  follow(piece, 0, updates);
}

/// Where it stands among those who came.
std::size_t SpooledSum::nearest_client() {
  const std::size_t clients = arrived_.size();
  // In the order of the clients, so that of equal ones the same is taken whoever came first.
  std::vector<std::size_t> order(clients);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t place) { return arrived_[place].client; });
  std::vector<double> all(clients * clients);
  for (const std::size_t t : by_name()) {
    std::vector<double> squares(clients * clients);
    for_each_piece(tensors_[t], [&](const Piece& piece) {
      std::vector<std::vector<float>> moved(clients);
      for (std::size_t a = 0; a < clients; ++a) {
        const std::span<const double> here = changes(order[a], piece);
        moved[a].assign(here.begin(), here.end());
      }
      for (std::size_t a = 0; a < clients; ++a)
        for (std::size_t b = 0; b < clients; ++b)
          for (std::size_t i = 0; i < piece.count; ++i) {
            const double apart = static_cast<double>(moved[a][i]) - moved[b][i];
            squares[a * clients + b] += apart * apart;
          }
    });
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += squares[i];
  }
  return order[edge::nearest_of(all, clients, static_cast<std::size_t>(config_.edge.faulty))];
}

void SpooledSum::close(const RoundEnd& end) {
  if (arrived_.empty() && !end.noise) return;
  if (config_.edge.clip > 0 && !config_.edge.secure) clip_weights();
  const std::size_t chosen = outer_.robust && outer_.middle == nullptr ? nearest_client() : 0;
  for (const Tensor& tensor : tensors_)
    for_each_piece(tensor, [&](const Piece& piece) {
      if (outer_.robust) {
        follow_kept(piece, chosen);
      } else {
        follow_sum(piece, end);
      }
    });
  spool_.begin_round();
}

}  // namespace cleave::train
