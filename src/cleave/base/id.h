#pragma once

#include <compare>
#include <concepts>

namespace cleave {

/// The number of one thing among its like. A loose integer is named where it becomes one,
/// `StageId{s}`, and from then on it reads as an int: it indexes, counts and compares with counts.
/// An Id of one thing does not become that of another, and does not compare with it, except by way
/// of `int{…}`.
template <class Thing>
class Id {
 public:
  constexpr explicit Id(int number) : number_(number) {}
  template <class Other>
  Id(Id<Other>) = delete;

  constexpr operator int() const { return number_; }

  constexpr Id& operator++() {
    ++number_;
    return *this;
  }

 private:
  int number_;
};

template <class One, class Other>
requires(!std::same_as<One, Other>) bool operator==(Id<One>, Id<Other>) = delete;

template <class One, class Other>
requires(!std::same_as<One, Other>) std::strong_ordering operator<=>(Id<One>, Id<Other>) = delete;

/// A device of a mesh; in a program, whose devices are the places of a mesh, one of those.
using DeviceId = Id<struct DeviceTag>;
using PlaceId = Id<struct PlaceTag>;
using StageId = Id<struct StageTag>;
/// A segment of a stage, or of the model; -1 where a stage is meant as a whole.
using SegmentId = Id<struct SegmentTag>;
/// A microbatch of a step as its device or its replica counts it.
using MicrobatchId = Id<struct MicrobatchTag>;
using ReplicaId = Id<struct ReplicaTag>;

}  // namespace cleave
