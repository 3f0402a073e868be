#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cleave/comm/communicator.h"
#include "cleave/spec/mesh.h"

namespace cleave::engine {

/// Whom a device of the run meets at the places of a program: the devices of its own number where
/// it adds up or gathers what replicas have, and, where places differ in size, whoever has its
/// slices of a message.
class Peers {
 public:
  /// A part of a message that this device exchanges with another one of the run.
  struct Slice {
    int device = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  /// Every device of `world` is alone at its place.
  explicit Peers(comm::Communicator& world);
  /// `device` of a run whose devices are `world`.
  Peers(comm::Communicator& world, const Mesh& mesh, int device);

  /// The devices of this number at `places`, which have as many devices as its own. All members
  /// call it, in the same order.
  std::unique_ptr<comm::Communicator> group(std::span<const int> places) const;

  /// What this device has to do with a message of so many bytes to the devices at `place`, or from
  /// them.
  std::vector<Slice> sent(int place, std::int64_t bytes) const;
  std::vector<Slice> received(int place, std::int64_t bytes) const;

  /// Where the parts begin in which a message from `place` comes to the devices at this one, and
  /// its end: they gather it. Empty: each has all of it.
  std::vector<std::size_t> gathered(int place, std::int64_t bytes) const;

 private:
  comm::Communicator* world_;
  Mesh mesh_;
  int place_ = 0;
  int number_ = 0;
};

}  // namespace cleave::engine
