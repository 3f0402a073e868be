#include "cleave/train/step/update_sum.h"

#include <bit>
#include <cmath>
#include <numeric>

#include "cleave/train/step/round_slots.h"
#include "cleave/train/step/slot_elements.h"

namespace cleave::train {
namespace {

using engine::TensorState;

constexpr std::int64_t kElements = kMeanElements;

/// The 64 bits that element i of two slots has.
std::uint64_t joined(const float* low, const float* high, std::int64_t i) {
  return std::bit_cast<std::uint32_t>(low[i]) | std::uint64_t{std::bit_cast<std::uint32_t>(high[i])}
                                                    << 32;
}

void part(std::uint64_t bits, float* low, float* high, std::int64_t i) {
  low[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  high[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 32));
}

/// Calls visit(begin, count) on pieces that fit into a chunk.
template <class Visit>
void for_each_short_piece(std::int64_t length, Visit&& visit) {
  for (std::int64_t begin = 0; begin < length; begin += kElements)
    visit(begin, static_cast<std::size_t>(std::min(kElements, length - begin)));
}

/// The weights follow `updates`, which belong to their elements from `begin` on.
void follow(const edge::OuterKind& outer, const edge::OuterHyper& hyper,
            const std::array<float*, 3>& at, std::int64_t begin, std::span<const double> updates) {
  const auto run = [&](float* elements) { return std::span(elements + begin, updates.size()); };
  outer.update({.weights = run(at[0]),
                .update = updates,
                .momentum = outer.momentum ? run(at[1]) : std::span<float>(),
                .squares = outer.squares ? run(at[2]) : std::span<float>()},
               hyper);
}

}  // namespace

UpdateSum::UpdateSum(const Config& config, const std::vector<std::string>& names,
                     engine::Device& device, comm::Communicator& world,
                     const std::set<std::string>& shared)
    : config_(config),
      names_(names),
      device_(device),
      world_(world),
      outer_(*edge::find_outer(config.edge.outer)),
      hyper_(config.edge.outer_hyper()),
      encoder_(config, names, device, world) {
  for (const auto* tensors : {&device.tensors(), &device.copies()})
    for (const TensorState& tensor : *tensors)
      if (tensor.trained() && !shared.contains(tensor.name)) tensors_.push_back(&tensor);
}

void UpdateSum::take_start() {
  for (const TensorState* tensor : tensors_)
    copy_elements(*tensor, tensor->master, slot_of(*tensor, kStartSlot));
}

void UpdateSum::begin_round(std::vector<const TensorState*> averaged) {
  averaged_ = std::move(averaged);
  arrived_.clear();
  for (const TensorState* tensor : averaged_) {
    if (outer_.robust || owners_are_apart(config_)) continue;
    for (const std::string_view sum : {kLowSlot, kHighSlot})
      clear_elements(*tensor, slot_of(*tensor, sum));
  }
}

void UpdateSum::reset_weights() {
  for (const TensorState* tensor : tensors_)
    copy_elements(*tensor, slot_of(*tensor, kStartSlot), tensor->master);
}

void UpdateSum::add(const ClientUpdate& update) {
  arrived_.push_back(update.client);
  const std::size_t plain = update.masks == nullptr ? sizeof(float) : sizeof(std::uint64_t);
  for (const TensorState* tensor : averaged_)
    count(*tensor, encoder_.has_codec() ? encoder_.encode(*tensor, update).size()
                                        : static_cast<std::size_t>(tensor->elements()) * plain);
  const double scale = config_.edge.clip > 0 ? encoder_.clip_scale() : 1;
  for (const TensorState* tensor : averaged_) {
    if (outer_.robust) {
      keep_update(*tensor, update.arrival);
    } else {
      add_update(*tensor, update, scale);
    }
  }
}

void UpdateSum::count(const TensorState& tensor, std::size_t bytes) {
  const auto& own = device_.tensors();
  const bool counted =
      device_.is_owner() && &tensor >= own.data() && &tensor < own.data() + own.size();
  if (counted) sent_bytes_ += static_cast<std::int64_t>(bytes);
}

/// For a rule that needs the updates of all at once.
void UpdateSum::keep_update(const TensorState& tensor, std::size_t arrival) {
  for_each_joint_run<3>(
      tensor, {tensor.master, slot_of(tensor, kStartSlot), slot_of(tensor, update_slot(arrival))},
      [&](const auto& at, std::int64_t, std::int64_t length) {
        for (std::int64_t i = 0; i < length; ++i)
          at[2][i] = static_cast<float>(encoder_.difference(at[0][i], at[1][i]));
      });
}

void UpdateSum::add_update(const TensorState& tensor, const ClientUpdate& update, double scale) {
  const double weight = update.weight * scale;
  const auto add_run = [&](const std::array<float*, 4>& at, std::int64_t first,
                           std::int64_t length) {
    for_each_short_piece(length, [&](std::int64_t begin, std::size_t count) {
      std::array<std::uint64_t, kElements> numbers;
      for (std::size_t i = 0; i < count; ++i) {
        const auto at_i = begin + static_cast<std::int64_t>(i);
        const double change = weight * encoder_.difference(at[0][at_i], at[1][at_i]);
        const std::uint64_t sum = joined(at[2], at[3], at_i);
        numbers[i] = config_.edge.fixed_sums
                         ? fixed_change(change, tensor.name, update.client)
                         : std::bit_cast<std::uint64_t>(std::bit_cast<double>(sum) + change);
      }
      if (update.masks != nullptr)
        update.masks->mask(tensor.name, static_cast<std::uint64_t>(first + begin),
                           std::span(numbers).first(count));
      for (std::size_t i = 0; i < count; ++i) {
        const auto at_i = begin + static_cast<std::int64_t>(i);
        const std::uint64_t before = config_.edge.fixed_sums ? joined(at[2], at[3], at_i) : 0;
        part(before + numbers[i], at[2], at[3], at_i);
      }
    });
  };
  for_each_joint_run<4>(tensor,
                        {tensor.master, slot_of(tensor, kStartSlot), slot_of(tensor, kLowSlot),
                         slot_of(tensor, kHighSlot)},
                        add_run);
}

void UpdateSum::end_round(const RoundEnd& end) {
  reset_weights();
  if (end.clients == 0 && !end.noise) return;
  const std::size_t chosen = outer_.robust && outer_.middle == nullptr ? nearest_client() : 0;
  for (const TensorState* tensor : averaged_) {
    if (outer_.robust) {
      follow_kept(*tensor, chosen);
    } else {
      follow_sum(*tensor, end);
    }
  }
}

void UpdateSum::follow_sum(const TensorState& tensor, const RoundEnd& end) {
  const View momentum = outer_.momentum ? slot_of(tensor, kMomentumSlot) : tensor.master;
  const View squares = outer_.squares ? slot_of(tensor, kSquaresSlot) : tensor.master;
  const auto key = noise_key(end, tensor.name);
  const auto follow_run = [&](const std::array<float*, 5>& at, std::int64_t first,
                              std::int64_t length) {
    for_each_short_piece(length, [&](std::int64_t begin, std::size_t count) {
      std::array<std::uint64_t, kElements> sums;
      std::array<double, kElements> updates;
      for (std::size_t i = 0; i < count; ++i)
        sums[i] = joined(at[3], at[4], begin + static_cast<std::int64_t>(i));
      mean_changes(config_.edge, end, tensor.name, key, static_cast<std::uint64_t>(first + begin),
                   std::span(sums).first(count), updates);
      follow(outer_, hyper_, {at[0], at[1], at[2]}, begin, std::span(updates).first(count));
    });
  };
  for_each_joint_run<5>(
      tensor,
      {tensor.master, momentum, squares, slot_of(tensor, kLowSlot), slot_of(tensor, kHighSlot)},
      follow_run);
}

/// Where it stands among those who came; the same on all devices.
std::size_t UpdateSum::nearest_client() {
  const std::size_t clients = arrived_.size();
  // There is a sum for each tensor, so that none depends on which device has it.
  std::vector<double> squares(names_.size() * clients * clients);
  for (const TensorState& tensor : device_.tensors()) {
    if (!tensor.trained() || !device_.is_owner()) continue;
    const auto name = std::ranges::lower_bound(names_, tensor.name) - names_.begin();
    double* const here = &squares[static_cast<std::size_t>(name) * clients * clients];
    for (std::size_t a = 0; a < clients; ++a) {
      for (std::size_t b = 0; b < clients; ++b) {
        double& sum = here[a * clients + b];
        for_each_joint_run<2>(tensor,
                              {slot_of(tensor, update_slot(a)), slot_of(tensor, update_slot(b))},
                              [&](const auto& at, std::int64_t, std::int64_t length) {
                                for (std::int64_t i = 0; i < length; ++i) {
                                  const double apart = static_cast<double>(at[0][i]) - at[1][i];
                                  sum += apart * apart;
                                }
                              });
      }
    }
  }
  world_.combine(squares, comm::Combine::Sum);
  // In the order of the clients, so that of equal ones the same is taken whoever came first.
  std::vector<std::size_t> order(clients);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t place) { return arrived_[place]; });
  std::vector<double> all(clients * clients);
  for (std::size_t name = 0; name < names_.size(); ++name)
    for (std::size_t a = 0; a < clients; ++a)
      for (std::size_t b = 0; b < clients; ++b)
        all[a * clients + b] += squares[(name * clients + order[a]) * clients + order[b]];
  return order[edge::nearest_of(all, clients, static_cast<std::size_t>(config_.edge.faulty))];
}

/// What a robust rule makes of the updates that were kept; without one for elements, that of
/// the client at place `chosen`.
void UpdateSum::follow_kept(const TensorState& tensor, std::size_t chosen) {
  const std::size_t clients = arrived_.size();
  const auto faulty = static_cast<std::size_t>(config_.edge.faulty);
  std::vector<View> kept;
  for (std::size_t i = 0; i < clients; ++i) kept.push_back(slot_of(tensor, update_slot(i)));
  std::vector<float> values(clients);
  std::int64_t row = 0;
  const auto follow_run = [&](const std::array<float*, 1>& at, std::int64_t, std::int64_t length) {
    for_each_short_piece(length, [&](std::int64_t begin, std::size_t count) {
      std::array<double, kElements> updates;
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t c = 0; c < clients; ++c) {
          const std::int64_t run = tensor.dim != 0 ? row * kept[c].stride(0) : 0;
          values[c] = kept[c].as<float>()[run + begin + static_cast<std::int64_t>(i)];
        }
        updates[i] = outer_.middle != nullptr ? outer_.middle(values, faulty) : values[chosen];
      }
      follow(outer_, hyper_, {at[0], at[0], at[0]}, begin, std::span(updates).first(count));
    });
    ++row;
  };
  for_each_joint_run<1>(tensor, {tensor.master}, follow_run);
}

}  // namespace cleave::train
