#include "cleave/comm/collective.h"

#include <algorithm>
#include <bit>

#include "cleave/base/check.h"
#include "cleave/comm/tree_sum.h"

namespace cleave::comm {

Collective::Collective(Communicator& comm) : comm_(comm) {
  const auto members = static_cast<std::size_t>(comm.size());
  flights_.reserve(2 * members);
  borders_.reserve(members + 1);
  parts_.resize(members);
}

// ── Rounds ───────────────────────────────────────────────────────────────────────────────────────

void Collective::start(CollectiveKind kind, int tag, Traffic traffic, Round next) {
  ExchangeLog& log = comm_.transport().log();
  const ExchangeLog::Stay stay(log);
  logged_ = kind == CollectiveKind::Barrier ? ExchangeLog::kNone : log.begin(kind);
  sent_ = 0;
  kind_ = kind;
  tag_ = tag;
  traffic_ = traffic;
  next_ = next;
  round_ = 0;
  complete_ = false;
  comm_.transport().enlist(*this);
  advance();
}

bool Collective::advance() {
  while (!complete_) {
    bool arrived = true;
    for (Pending& flight : flights_) arrived = flight.done() && arrived;
    if (!arrived) return false;
    flights_.clear();
    complete_ = !(this->*next_)();
    if (complete_) comm_.transport().log().end(logged_, sent_);
  }
  return true;
}

void Collective::release() noexcept {
  for (Pending& flight : flights_) flight.withdraw();
  flights_.clear();
  if (on_host_.owner != nullptr) on_host_.owner->give_back(on_host_.bytes);
  on_host_ = {};
  comm_.transport().discharge(*this);
  comm_.give_back(*this);
}

std::string Collective::describe() const {
  for (const Pending& flight : flights_) {
    if (flight.in_flight()) {
      return detail::concat(name_of(kind_), " among ", comm_.size(),
                            " devices: ", flight.describe());
    }
  }
  return detail::concat(name_of(kind_), " among ", comm_.size(), " devices");
}

int Collective::awaited() const {
  const auto pending = std::ranges::find_if(flights_, &Pending::in_flight);
  return pending == flights_.end() ? kNobody : pending->awaited();
}

void Collective::send(std::span<std::byte> bytes, int to, OnHost on_host) {
  sent_ += static_cast<std::int64_t>(bytes.size());
  flights_.push_back(comm_.post({.direction = Direction::Send,
                                 .member = to,
                                 .tag = tag_,
                                 .bytes = bytes,
                                 .on_host = on_host.at,
                                 .is_on_host = on_host.filled},
                                traffic_));
}

void Collective::receive(std::span<std::byte> bytes, int from, OnHost on_host) {
  flights_.push_back(comm_.post({.direction = Direction::Receive,
                                 .member = from,
                                 .tag = tag_,
                                 .bytes = bytes,
                                 .on_host = on_host.at},
                                traffic_));
}

void Collective::pass_through(HostRoom on_host, std::size_t needed) {
  on_host_ = on_host;
  CLEAVE_CHECK(on_host.bytes.empty() || on_host.bytes.size() >= needed, "a collective of ", needed,
               " B on the host has room for ", on_host.bytes.size());
}

std::byte* Collective::on_host_at(std::size_t offset) const {
  return on_host_.bytes.empty() ? nullptr : on_host_.bytes.data() + offset;
}

// ── Barrier: after round k everyone knows of the 2^(k+1) members up to itself ────────────────────

void Collective::start_barrier(int tag) {
  start(CollectiveKind::Barrier, tag, Traffic::Gather, &Collective::next_of_barrier);
}

bool Collective::next_of_barrier() {
  const int distance = 1 << round_++;
  if (distance >= comm_.size()) return false;
  receive({}, (comm_.rank() + comm_.size() - distance) % comm_.size(), {});
  send({}, (comm_.rank() + distance) % comm_.size(), {});
  return true;
}

// ── Broadcast: a binomial tree. Counted from the root, the parent of 0b0110 is 0b0100 ────────────

void Collective::start_broadcast(int tag, std::span<std::byte> bytes, int root) {
  bytes_ = bytes;
  root_ = root;
  start(CollectiveKind::Broadcast, tag, Traffic::Gather, &Collective::next_of_broadcast);
}

bool Collective::next_of_broadcast() {
  const int size = comm_.size();
  const unsigned place = static_cast<unsigned>((comm_.rank() - root_ + size) % size);
  const unsigned own_bit = place == 0 ? std::bit_ceil(static_cast<unsigned>(size)) : place & -place;
  const auto member = [&](unsigned at) { return static_cast<int>(at + root_) % size; };
  const std::size_t round = round_++;
  if (round == 0 && place != 0) receive(bytes_, member(place - own_bit), {});
  if (round == 1) {
    for (unsigned bit = own_bit / 2; bit > 0; bit /= 2) {
      if (place + bit < static_cast<unsigned>(size)) send(bytes_, member(place + bit), {});
    }
  }
  return round < 2;
}

// ── All-gather: everyone sends its slice to everyone ─────────────────────────────────────────────

std::span<std::byte> Collective::slice(int member) const {
  return bytes_.subspan(borders_[member], borders_[member + 1] - borders_[member]);
}

void Collective::start_all_gather(int tag, std::span<std::byte> whole,
                                  std::span<const std::size_t> borders, HostRoom on_host) {
  bytes_ = whole;
  borders_.assign(borders.begin(), borders.end());
  pass_through(on_host, whole.size());
  start(CollectiveKind::AllGather, tag, Traffic::Gather, &Collective::next_of_all_gather);
}

bool Collective::next_of_all_gather() {
  if (round_++ > 0) return false;
  const int size = comm_.size(), rank = comm_.rank();
  // Each starts with another peer, so that not all talk to the same one at once.
  for (int shift = 1; shift < size; ++shift) {
    const int from = (rank + size - shift) % size, to = (rank + shift) % size;
    if (!slice(from).empty()) receive(slice(from), from, {.at = on_host_at(borders_[from])});
    // What all of them get moves to the host once.
    const bool moved = shift > 1 && !on_host_.bytes.empty();
    if (!slice(rank).empty())
      send(slice(rank), to, {.at = on_host_at(borders_[rank]), .filled = moved});
  }
  return true;
}

// ── Reduce-scatter: everyone gets the others' contributions to its own slice, and adds them up in
//    the canonical order. In as many rounds as the workspace needs. All-reduce gathers afterwards
//    ──

void Collective::start_reduce(int tag, const Reduction& reduction,
                              std::span<const std::size_t> borders, Then then) {
  const auto others = static_cast<std::size_t>(comm_.size() - 1);
  bytes_ = reduction.values;
  borders_.assign(borders.begin(), borders.end());
  workspace_ = reduction.workspace;
  piece_bytes_ = workspace_.size() / others / kReduceGrain * kReduceGrain;
  adder_ = &reduction.adder;
  then_ = then;
  pass_through(reduction.on_host, then == Then::Gather
                                      ? all_reduce_host_bytes(bytes_.size(), workspace_.size())
                                      : reduce_scatter_host_bytes(workspace_.size()));
  CLEAVE_CHECK(piece_bytes_ > 0, "a workspace of ", workspace_.size(), " B for a sum over ",
               comm_.size(), " devices needs at least ", others * kReduceGrain, " B");
  start(then == Then::Gather ? CollectiveKind::AllReduce : CollectiveKind::ReduceScatter, tag,
        Traffic::Reduce, &Collective::next_of_reduce);
}

std::span<std::byte> Collective::piece(int member, std::size_t round) const {
  const std::span<std::byte> whole = slice(member);
  const std::size_t begin = std::min(whole.size(), round * piece_bytes_);
  return whole.subspan(begin, std::min(piece_bytes_, whole.size() - begin));
}

std::span<std::byte> Collective::arriving(int member, std::size_t bytes) const {
  const int place = member < comm_.rank() ? member : member - 1;
  return workspace_.subspan(static_cast<std::size_t>(place) * piece_bytes_, bytes);
}

bool Collective::next_of_reduce() {
  if (round_ > 0) add_up_round();
  const int size = comm_.size(), rank = comm_.rank();
  for (int shift = 1; shift < size; ++shift) {
    const int from = (rank + size - shift) % size, to = (rank + shift) % size;
    const std::size_t mine = piece(rank, round_).size();
    const auto place = static_cast<std::size_t>(shift - 1) * piece_bytes_;
    if (mine > 0) receive(arriving(from, mine), from, {.at = on_host_at(place)});
    if (!piece(to, round_).empty())
      send(piece(to, round_), to, {.at = on_host_at(workspace_.size() + place)});
  }
  ++round_;
  if (!flights_.empty()) return true;
  if (then_ == Then::Stop) return false;
  next_ = &Collective::next_of_all_gather;
  round_ = 0;
  return next_of_all_gather();
}

void Collective::add_up_round() {
  const std::span<std::byte> mine = piece(comm_.rank(), round_ - 1);
  if (mine.empty()) return;
  for (int member = 0; member < comm_.size(); ++member) {
    parts_[member] = member == comm_.rank() ? mine.data() : arriving(member, mine.size()).data();
  }
  tree_sum(parts_, mine.size(), *adder_, mine.data());
}

}  // namespace cleave::comm
