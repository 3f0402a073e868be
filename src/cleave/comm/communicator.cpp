#include "cleave/comm/communicator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/comm/collective.h"
#include "cleave/comm/pool.h"
#include "cleave/comm/tree_sum.h"

namespace cleave::comm {
namespace {

std::vector<int> all_devices(const Transport& transport) {
  std::vector<int> devices(static_cast<std::size_t>(transport.devices()));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

void fill_even_borders(std::size_t bytes, int members, std::vector<std::size_t>& borders) {
  const std::size_t grains = (bytes + kReduceGrain - 1) / kReduceGrain;
  borders.clear();
  for (int i = 0; i <= members; ++i) {
    const std::size_t grain =
        grains * static_cast<std::size_t>(i) / static_cast<std::size_t>(members);
    borders.push_back(std::min(bytes, grain * kReduceGrain));
  }
}

double combined(double a, double b, Combine how) {
  return how == Combine::Sum ? a + b : how == Combine::Max ? std::max(a, b) : std::min(a, b);
}

/// Where a member stands in one round of combine(): in the left or the right half of a block of
/// 2 × distance members, the right half being what there is of it.
class HalfBlock {
 public:
  HalfBlock(int rank, int distance, int members)
      : rank_(rank), distance_(distance), begin_(rank / (2 * distance) * 2 * distance) {
    right_ = std::clamp(members - begin_ - distance, 0, distance);
  }

  bool is_left() const { return rank_ < begin_ + distance_; }

  /// Whom it hears from; -1: there is nobody in the other half.
  int partner() const {
    if (!is_left()) return rank_ - distance_;
    return right_ == 0 ? -1 : begin_ + distance_ + (rank_ - begin_) % right_;
  }

  /// Whom it tells: those who have it for a partner.
  int first_told() const { return is_left() ? rank_ + distance_ : rank_ - distance_; }
  int end_told() const { return is_left() ? begin_ + distance_ + right_ : begin_ + distance_; }
  int stride() const { return is_left() ? distance_ : std::max(1, right_); }

 private:
  int rank_, distance_, begin_;
  int right_;  ///< members in the right half
};

/// The messages of one round, which do not outlive it.
struct Round {
  explicit Round(std::vector<Pending>& flights) : flights(flights) { flights.clear(); }
  ~Round() { flights.clear(); }
  std::vector<Pending>& flights;
};

}  // namespace

int combine_messages(int rank, int members) {
  int sent = 0;
  for (int distance = 1; distance < members; distance *= 2) {
    const HalfBlock block(rank, distance, members);
    if (block.partner() < 0) continue;
    for (int to = block.first_told(); to < block.end_told(); to += block.stride()) ++sent;
  }
  return sent;
}

int combine_partner(int rank, int distance, int members) {
  return HalfBlock(rank, distance, members).partner();
}

std::vector<std::size_t> even_borders(std::size_t bytes, int members) {
  std::vector<std::size_t> borders;
  fill_even_borders(bytes, members, borders);
  return borders;
}

std::size_t single_round_workspace(std::size_t bytes, int members) {
  const auto count = static_cast<std::size_t>(members);
  const std::size_t grains = (bytes + kReduceGrain - 1) / kReduceGrain;
  return (count - 1) * std::max<std::size_t>(1, (grains + count - 1) / count) * kReduceGrain;
}

/// What only collectives need.
struct Communicator::Collectives {
  Pool<Collective> pool;
  int started = 0;
  std::vector<double> numbers;   ///< of another member, for combine()
  std::vector<Pending> flights;  ///< of one round of combine()
  std::vector<std::size_t> borders;
};

Communicator::Communicator(Transport& transport)
    : Communicator(transport, /*context=*/0, all_devices(transport)) {}

Communicator::Communicator(Transport& transport, int context, std::vector<int> devices)
    : transport_(&transport), context_(context), devices_(std::move(devices)) {
  const auto self = std::find(devices_.begin(), devices_.end(), transport.device());
  CLEAVE_CHECK(self != devices_.end(), "device ", transport.device(), " is not in its own group");
  rank_ = static_cast<int>(self - devices_.begin());
  collectives_ = std::make_unique<Collectives>();
  collectives_->flights.reserve(devices_.size());
}

Communicator::~Communicator() = default;

void Communicator::make_room(std::size_t collectives, std::size_t messages) {
  const std::size_t each = 2 * (devices_.size() - 1);  // to every other member, and from it
  collectives_->pool.prepare(collectives, *this);
  transport_->make_room(collectives, messages + collectives * each);
}

Pending Communicator::post(Message message, Traffic traffic) {
  CLEAVE_CHECK(0 <= message.member && message.member < size() && message.member != rank_, "device ",
               device(rank_), " and member ", message.member, " of ", size());
  const ExchangeLog::Stay stay(transport_->log());
  message.context = context_;
  message.peer = devices_[static_cast<std::size_t>(message.member)];
  if (message.direction == Direction::Send) {
    transport_->count(traffic, static_cast<std::int64_t>(message.bytes.size()));
  }
  return Pending(*transport_, transport_->start(message));
}

Pending Communicator::send(std::span<const std::byte> bytes, int to, int tag) {
  CLEAVE_CHECK(0 <= tag && tag < kTags, "tag ", tag);
  return post({.direction = Direction::Send,
               .member = to,
               .tag = tag,
               .bytes = {const_cast<std::byte*>(bytes.data()), bytes.size()}},
              Traffic::Message);
}

Pending Communicator::receive(std::span<std::byte> bytes, int from, int tag) {
  CLEAVE_CHECK(0 <= tag && tag < kTags, "tag ", tag);
  return post({.direction = Direction::Receive, .member = from, .tag = tag, .bytes = bytes},
              Traffic::Message);
}

std::unique_ptr<Communicator> Communicator::group(std::span<const int> members) {
  std::vector<int> devices;
  for (const int member : members) {
    CLEAVE_CHECK(0 <= member && member < size(), "member ", member, " of a group of ", size());
    CLEAVE_CHECK(std::find(devices.begin(), devices.end(), device(member)) == devices.end(),
                 "member ", member, " twice");
    devices.push_back(device(member));
  }
  // Nobody to talk to needs no tags.
  const int context = devices.size() == 1 ? 0 : transport_->open_context(context_, devices);
  return std::unique_ptr<Communicator>(new Communicator(*transport_, context, std::move(devices)));
}

// ── Collectives ──────────────────────────────────────────────────────────────────────────────────

Collective& Communicator::new_collective() {
  return collectives_->pool.acquire(*this);
}

void Communicator::give_back(Collective& collective) noexcept {
  collectives_->pool.give_back(collective);
}

// Above the tags of messages. By the time they come round again the old collective is long over.
int Communicator::next_tag() {
  const int tag = kTags + collectives_->started;
  collectives_->started = (collectives_->started + 1) % kTags;
  return tag;
}

void Communicator::check_borders(std::span<const std::size_t> borders, std::size_t bytes) const {
  CLEAVE_CHECK(borders.size() == devices_.size() + 1 && borders.front() == 0 &&
                   borders.back() == bytes && std::is_sorted(borders.begin(), borders.end()),
               borders.size(), " borders for ", bytes, " B over ", size(), " devices");
}

Pending Communicator::barrier() {
  if (size() == 1) return {};
  Collective& collective = new_collective();
  Pending pending(*transport_, collective);
  collective.start_barrier(next_tag());
  return pending;
}

Pending Communicator::broadcast(std::span<std::byte> bytes, int root) {
  CLEAVE_CHECK(0 <= root && root < size(), "root ", root, " of ", size());
  if (size() == 1) return {};
  Collective& collective = new_collective();
  Pending pending(*transport_, collective);
  collective.start_broadcast(next_tag(), bytes, root);
  return pending;
}

Pending Communicator::all_gather(std::span<std::byte> whole, std::span<const std::size_t> borders,
                                 HostRoom on_host) {
  check_borders(borders, whole.size());
  if (size() == 1) return {};
  Collective& collective = new_collective();
  Pending pending(*transport_, collective);
  collective.start_all_gather(next_tag(), whole, borders, on_host);
  return pending;
}

Pending Communicator::reduce_scatter(const Reduction& reduction,
                                     std::span<const std::size_t> borders) {
  check_borders(borders, reduction.values.size());
  if (size() == 1) return {};
  Collective& collective = new_collective();
  Pending pending(*transport_, collective);
  collective.start_reduce(next_tag(), reduction, borders, Collective::Then::Stop);
  return pending;
}

Pending Communicator::all_reduce(const Reduction& reduction) {
  if (size() == 1) return {};
  Collective& collective = new_collective();
  Pending pending(*transport_, collective);
  fill_even_borders(reduction.values.size(), size(), collectives_->borders);
  collective.start_reduce(next_tag(), reduction, collectives_->borders, Collective::Then::Gather);
  return pending;
}

// After the round with `distance` d everyone has what the aligned block of 2d members around it
// comes to, the left half before the right, as tree_sum() has it:
//
//     0   1   2   3   4
//     ├───┤   ├───┤           distance 1
//     ├───────┤               distance 2: also 1 and 3
//     ├───────────────┤       distance 4: 4 tells 0, 1, 2 and 3, and hears from 0
void Communicator::combine(std::span<double> values, Combine how) {
  if (size() == 1) return;
  const int tag = next_tag();
  std::vector<Pending>& flights = collectives_->flights;
  std::vector<double>& theirs = collectives_->numbers;
  theirs.resize(values.size());
  for (int distance = 1; distance < size(); distance *= 2) {
    const HalfBlock block(rank_, distance, size());
    if (block.partner() < 0) continue;
    const Round round(flights);
    flights.push_back(post({.direction = Direction::Receive,
                            .member = block.partner(),
                            .tag = tag,
                            .bytes = std::as_writable_bytes(std::span(theirs))},
                           Traffic::Numbers));
    for (int to = block.first_told(); to < block.end_told(); to += block.stride())
      flights.push_back(post({.direction = Direction::Send,
                              .member = to,
                              .tag = tag,
                              .bytes = std::as_writable_bytes(values)},
                             Traffic::Numbers));
    for (Pending& flight : flights) flight.wait();
    const bool left = block.is_left();
    std::transform(values.begin(), values.end(), theirs.begin(), values.begin(),
                   [&](double mine, double other) {
                     return left ? combined(mine, other, how) : combined(other, mine, how);
                   });
  }
}

}  // namespace cleave::comm
