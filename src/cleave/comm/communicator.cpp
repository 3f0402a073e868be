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

}  // namespace

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
  std::vector<double> numbers;  ///< [member][value], for combine()
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
  return Pending(*transport_, transport_->post(message));
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
  const int context = transport_->open_context(context_, devices);
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

Pending Communicator::all_gather(std::span<std::byte> whole, std::span<const std::size_t> borders) {
  return all_gather(whole, borders, Traffic::Gather);
}

Pending Communicator::all_gather(std::span<std::byte> whole, std::span<const std::size_t> borders,
                                 Traffic traffic) {
  check_borders(borders, whole.size());
  if (size() == 1) return {};
  Collective& collective = new_collective();
  Pending pending(*transport_, collective);
  collective.start_all_gather(next_tag(), whole, borders, traffic);
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

void Communicator::combine(std::span<double> values, Combine how) {
  std::vector<double>& numbers = collectives_->numbers;
  std::vector<std::size_t>& borders = collectives_->borders;
  numbers.resize(values.size() * devices_.size());
  borders.resize(devices_.size() + 1);
  for (std::size_t i = 0; i < borders.size(); ++i) borders[i] = i * values.size_bytes();
  const auto of = [&](int member) { return numbers.begin() + member * std::ssize(values); };
  std::copy(values.begin(), values.end(), of(rank_));
  all_gather(std::as_writable_bytes(std::span(numbers)), borders, Traffic::Numbers).wait();

  for (int step = 1; step < size(); step *= 2) {
    for (int left = 0; left + step < size(); left += 2 * step) {
      std::transform(of(left), of(left + 1), of(left + step), of(left), [&](double a, double b) {
        return how == Combine::Sum ? a + b : how == Combine::Max ? std::max(a, b) : std::min(a, b);
      });
    }
  }
  std::copy(of(0), of(1), values.begin());
}

}  // namespace cleave::comm
