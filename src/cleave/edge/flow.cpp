#include "cleave/edge/flow.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "cleave/base/check.h"
#include "cleave/schedule/effects.h"

namespace cleave::edge {
namespace {

using detail::concat;
using schedule::Direction;
using schedule::Instruction;
using schedule::Op;

/// A tensor as one replica has it in every microbatch.
struct Traced {
  Class what = Class::Activation;
  std::set<int> origins;
  std::string path;
};

/// Adds `other` to what a pass reads: the more telling class and its path stand for both.
void read(std::optional<Traced>& all, const Traced& other) {
  if (!all) {
    all = other;
    return;
  }
  all->origins.insert(other.origins.begin(), other.origins.end());
  if (other.what >= all->what) return;
  all->what = other.what;
  all->path = other.path;
}

/// Follows the tensors of a verified program.
class Tracer {
 public:
  explicit Tracer(const OwnedProgram& owned)
      : owned_(owned), program_(*owned.program), topology_(program_) {}

  std::vector<Crossing> trace() {
    for (int place = 0; place < program_.devices; ++place) {
      const auto& list = program_.lists[place];
      for (std::size_t at = 0; at < list.size(); ++at)
        follow(place, list[at], owned_.collected[place][at]);
    }
    std::vector<Crossing> all;
    for (auto& [key, crossing] : crossings_) all.push_back(std::move(crossing));
    return all;
  }

 private:
  int holder(StageId stage, ReplicaId replica) const {
    return owned_.owner_of[program_.placement[stage][replica]];
  }
  const std::string& name(int owner) const { return owned_.owners[owner].name; }

  /// What F of a stage reads: what it loads, and what its edges bring.
  Traced given(StageId stage, ReplicaId replica) {
    const StageUse& use = owned_.stages[stage];
    std::optional<Traced> all;
    const auto load = [&](const std::string& input, Class what, int owner) {
      if (!input.empty()) read(all, {what, {owner}, concat(input, " of ", name(owner))});
    };
    load(use.input, Class::Input, owned_.data_of[replica]);
    load(use.label, Class::Label, owned_.labels_of[replica]);
    for (const int edge : topology_.incoming[stage])
      read(all, forward(StageId{program_.edges[edge].from}, replica));
    CLEAVE_CHECK(all, "stage ", stage, " reads nothing");
    return *all;
  }

  std::string step_of(StageId stage, ReplicaId replica, std::string_view op) const {
    return concat(" → ", stage, op, owned_.stages[stage].product ? " on " : " (no product) on ",
                  name(holder(stage, replica)));
  }

  const Traced& forward(StageId stage, ReplicaId replica) {
    const std::pair<int, int> key(stage, replica);
    if (const auto found = forward_.find(key); found != forward_.end()) return found->second;
    Traced y = given(stage, replica);
    if (owned_.stages[stage].product) y.what = Class::Activation;
    y.path += step_of(stage, replica, "F");
    return forward_.emplace(key, std::move(y)).first->second;
  }

  /// What I of a stage hands back: made of all that its F read, and of the gradients that arrive.
  const Traced& backward(StageId stage, ReplicaId replica) {
    const std::pair<int, int> key(stage, replica);
    if (const auto found = backward_.find(key); found != backward_.end()) return found->second;
    const Traced x = given(stage, replica);
    std::optional<Traced> all;
    for (const int edge : topology_.outgoing[stage])
      if (program_.edges[edge].backward)
        read(all, backward(StageId{program_.edges[edge].to}, replica));
    if (!owned_.stages[stage].label.empty()) {
      const int owner = owned_.labels_of[replica];
      read(all, {Class::Label, {owner}, concat(owned_.stages[stage].label, " of ", name(owner))});
    }
    Traced dx = all.value_or(x);
    dx.origins.insert(x.origins.begin(), x.origins.end());
    if (owned_.stages[stage].product) dx.what = Class::Gradient;
    dx.path += step_of(stage, replica, "I");
    return backward_.emplace(key, std::move(dx)).first->second;
  }

  void add(int from, std::vector<int> to, const Traced& tensor, std::int64_t bytes,
           const std::string& last) {
    Crossing& crossing = crossings_[{from, to, tensor.what}];
    if (crossing.path.empty()) {
      crossing.from = from;
      crossing.what = tensor.what;
      crossing.path = tensor.path + last;
      for (const int owner : to) crossing.path += " → " + name(owner);
      crossing.to = std::move(to);
    }
    std::set<int> origins(crossing.origins.begin(), crossing.origins.end());
    origins.insert(tensor.origins.begin(), tensor.origins.end());
    crossing.origins.assign(origins.begin(), origins.end());
    crossing.bytes += bytes;
  }

  void follow(int place, const Instruction& i, std::int64_t collected) {
    const ReplicaId replica =
        i.microbatch < 0 ? topology_.replica[place] : topology_.of_replica(place, i).replica;
    if (i.op == Op::Forward && i.segment <= 0) loads(StageId{i.stage}, replica);
    if (i.op == Op::Send) sends(PlaceId{place}, replica, i);
    if (collected > 0) joins(place, i, collected);
  }

  /// Data that a stage loads has left its owner if the stage is another's.
  void loads(StageId stage, ReplicaId replica) {
    const StageUse& use = owned_.stages[stage];
    const int reader = holder(stage, replica);
    const auto load = [&](const std::string& input, Class what, int owner, std::int64_t bytes) {
      if (input.empty() || owner == reader) return;
      add(owner, {reader}, {what, {owner}, concat(input, " of ", name(owner))}, bytes,
          concat(" → ", stage, "F"));
    };
    load(use.input, Class::Input, owned_.data_of[replica], use.input_bytes);
    load(use.label, Class::Label, owned_.labels_of[replica], use.label_bytes);
  }

  void sends(PlaceId place, ReplicaId replica, const Instruction& send) {
    const schedule::Edge& edge = program_.edges[send.edge];
    const bool down = send.direction == Direction::Forward;
    const int to = holder(StageId{down ? edge.to : edge.from}, replica);
    const int from = owned_.owner_of[place];
    if (from == to) return;
    add(from, {to},
        down ? forward(StageId{edge.from}, replica) : backward(StageId{edge.to}, replica),
        down ? edge.forward_bytes : edge.backward_bytes, concat(" → ", to_string(send)));
  }

  /// The owners that an instruction brings together.
  std::set<int> joined(int place, const Instruction& i) const {
    const schedule::Members members = schedule::effects(i.op).members;
    if (members == schedule::Members::All) return {owned_.owner_of.begin(), owned_.owner_of.end()};
    std::set<int> owners;
    if (members == schedule::Members::Tied) {
      const schedule::Tie& tie = program_.ties[i.edge];
      for (const int stage : {tie.first, tie.second})
        owners.insert(holder(StageId{stage}, topology_.replica[place]));
    } else {
      for (const int other : program_.placement[i.stage]) owners.insert(owned_.owner_of[other]);
    }
    return owners;
  }

  /// What a place adds up or shares with others is made of the data of those it stands for.
  void joins(int place, const Instruction& i, std::int64_t bytes) {
    using schedule::Thing;
    const schedule::Things written = schedule::effects(i.op).writes;
    const Class what = written.has(Thing::Gradients)   ? Class::Update
                       : written.has(Thing::Values)    ? Class::Weight
                       : written.has(Thing::Collected) ? Class::Activation
                                                       : Class::Statistic;
    const int from = owned_.owner_of[place];
    std::vector<int> to;
    for (const int owner : joined(place, i))
      if (owner != from) to.push_back(owner);
    if (to.empty()) return;
    std::set<int> origins;
    const int first = topology_.replica[place];
    for (int r = first; r < first + topology_.replicas[place]; ++r) {
      origins.insert(owned_.data_of[r]);
      origins.insert(owned_.labels_of[r]);
    }
    add(from, to, {what, std::move(origins), concat(to_string(i), " on ", name(from))}, bytes, "");
  }

  const OwnedProgram& owned_;
  const schedule::Program& program_;
  schedule::Topology topology_;
  std::map<std::pair<int, int>, Traced> forward_;   ///< [stage, replica]
  std::map<std::pair<int, int>, Traced> backward_;  ///< [stage, replica]
  std::map<std::tuple<int, std::vector<int>, Class>, Crossing> crossings_;
};

std::string remedy_of(const Crossing& crossing) {
  if (crossing.what == Class::Label)
    return "let the client have the last layers too, as in layers = [1, 1], ";
  if (crossing.what == Class::Input)
    return "cut behind a layer that multiplies, as layers = [1, 1] does, ";
  return "";
}

}  // namespace

std::vector<Crossing> flow(const OwnedProgram& owned) {
  return Tracer(owned).trace();
}

std::vector<std::string> refusals(std::span<const Crossing> crossings,
                                  std::span<const Owner> owners) {
  std::vector<std::string> sentences;
  for (const Crossing& crossing : crossings) {
    const Owner& from = owners[crossing.from];
    if (from.may_send(crossing.what)) continue;
    sentences.push_back(concat("owner ", from.name, " does not send ", name_of(crossing.what),
                               ", which would leave it: ", crossing.path, "; ", remedy_of(crossing),
                               "or add \"", name_of(crossing.what), "\" to what it sends"));
  }
  return sentences;
}

}  // namespace cleave::edge
