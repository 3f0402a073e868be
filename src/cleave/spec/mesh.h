#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/base/id.h"

namespace cleave {

enum class Axis : std::uint8_t { Data, Pipeline, Tensor };

/// All axes of a mesh, each once, from the slowest to the fastest: neighbours among devices are
/// neighbours along the last one.
using AxisOrder = std::array<Axis, 3>;
inline constexpr AxisOrder kDefaultOrder = {Axis::Data, Axis::Pipeline, Axis::Tensor};

/// "data,pipeline,tensor"; nothing if that is not every axis once.
std::optional<AxisOrder> parse_axis_order(std::string_view text);
std::string to_string(const AxisOrder& order);

/// How devices stand along the axes of a run. Everything that asks who a device's neighbours are
/// asks here.
///
/// A place is where a device stands along data and pipeline, data slowest: the devices of a program
/// are places. Its number is where it stands along the tensor axis.
struct Mesh {
  int data = 1;
  int pipeline = 1;
  int tensor = 1;
  AxisOrder order = kDefaultOrder;
  bool last_first = false;  ///< devices count the places of a pipeline from its end
  /// [place along the pipeline] devices there, where modules have tensor degrees of their own;
  /// empty: `tensor` everywhere. Devices then count through the places in their order.
  std::vector<int> degrees = {};

  int places() const { return data * pipeline; }
  int devices() const;
  /// How many devices are at a place, and at the places that have the most.
  int devices_at(int place) const;
  int most_at_a_place() const;
  /// How many devices are at a place on average.
  double devices_per_place() const;

  int place_of(int device) const;
  int number_of(int device) const;
  int device_at(PlaceId place, int number) const;

  /// The devices at a place, by number.
  std::vector<int> group_at(int place) const;
  /// The devices of a number, by place; places that have fewer devices are left out.
  std::vector<int> peers_of(int number) const;

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  int size_of(Axis axis) const;
  /// How far apart neighbours along an axis are among devices.
  int stride_of(Axis axis) const;
  int coordinate(int device, Axis axis) const;
  /// The first device at a place, where places differ.
  int first_at(int place) const;
};

}  // namespace cleave
