#include "cleave/spec/mesh.h"

#include <algorithm>
#include <numeric>

namespace cleave {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"data", "pipeline", "tensor"};

}  // namespace

std::optional<AxisOrder> parse_axis_order(std::string_view text) {
  AxisOrder order{};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t comma = text.find(',');
    const bool last = i + 1 == order.size();
    if (last != (comma == std::string_view::npos)) return std::nullopt;
    const auto* name = std::ranges::find(kNames, text.substr(0, comma));
    if (name == kNames.end()) return std::nullopt;
    order[i] = static_cast<Axis>(name - kNames.begin());
    if (std::find(order.begin(), order.begin() + i, order[i]) != order.begin() + i)
      return std::nullopt;
    if (!last) text.remove_prefix(comma + 1);
  }
  return order;
}

std::string to_string(const AxisOrder& order) {
  std::string text;
  for (const Axis axis : order) {
    if (!text.empty()) text += ',';
    text += kNames[static_cast<std::size_t>(axis)];
  }
  return text;
}

int Mesh::size_of(Axis axis) const {
  return axis == Axis::Data ? data : axis == Axis::Pipeline ? pipeline : tensor;
}

int Mesh::stride_of(Axis axis) const {
  int stride = 1;
  for (auto faster = order.rbegin(); *faster != axis; ++faster) stride *= size_of(*faster);
  return stride;
}

int Mesh::coordinate(int device, Axis axis) const {
  return device / stride_of(axis) % size_of(axis);
}

int Mesh::devices_at(int place) const {
  return degrees.empty() ? tensor : degrees[static_cast<std::size_t>(place % pipeline)];
}

int Mesh::most_at_a_place() const {
  return degrees.empty() ? tensor : std::ranges::max(degrees);
}

int Mesh::devices() const {
  if (degrees.empty()) return places() * tensor;
  return data * std::accumulate(degrees.begin(), degrees.end(), 0);
}

double Mesh::devices_per_place() const {
  return static_cast<double>(devices()) / places();
}

int Mesh::first_at(int place) const {
  const int of_a_replica = std::accumulate(degrees.begin(), degrees.end(), 0);
  return place / pipeline * of_a_replica +
         std::accumulate(degrees.begin(), degrees.begin() + place % pipeline, 0);
}

int Mesh::place_of(int device) const {
  if (!degrees.empty()) {
    int place = 0;
    while (device >= first_at(place) + devices_at(place)) ++place;
    return place;
  }
  const int along = coordinate(device, Axis::Pipeline);
  return coordinate(device, Axis::Data) * pipeline + (last_first ? pipeline - 1 - along : along);
}

int Mesh::number_of(int device) const {
  if (!degrees.empty()) return device - first_at(place_of(device));
  return coordinate(device, Axis::Tensor);
}

int Mesh::device_at(PlaceId place, int number) const {
  if (!degrees.empty()) return first_at(place) + number;
  const int along = last_first ? pipeline - 1 - place % pipeline : place % pipeline;
  return place / pipeline * stride_of(Axis::Data) + along * stride_of(Axis::Pipeline) +
         number * stride_of(Axis::Tensor);
}

std::vector<int> Mesh::group_at(int place) const {
  std::vector<int> devices;
  for (int number = 0; number < devices_at(place); ++number)
    devices.push_back(device_at(PlaceId{place}, number));
  return devices;
}

std::vector<int> Mesh::peers_of(int number) const {
  std::vector<int> devices;
  for (PlaceId place{0}; place < places(); ++place)
    if (number < devices_at(place)) devices.push_back(device_at(place, number));
  return devices;
}

}  // namespace cleave
