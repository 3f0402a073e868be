#include "cleave/train/keep/state_image.h"

#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/train/step/round_slots.h"

namespace cleave::train {
namespace {

struct RunInMemory {
  TensorRun run;
  float* memory = nullptr;
};

void add_runs(const engine::TensorState& tensor, std::int32_t parameter,
              std::vector<RunInMemory>& runs) {
  const auto add = [&](std::int32_t part) {
    return [&runs, part, parameter](std::int64_t first, std::span<float> run) {
      runs.push_back({{part, parameter, first, std::ssize(run), 0}, run.data()});
    };
  };
  tensor.for_each_run(tensor.master, add(static_cast<std::int32_t>(checkpoint::Part::Weight)));
  for (std::size_t i = 0; i < tensor.slots.size(); ++i) {
    if (is_transient(tensor.slots[i].name)) break;
    tensor.for_each_run(tensor.slots[i].values, add(static_cast<std::int32_t>(i)));
  }
}

std::vector<std::span<float>> regions_of(const std::vector<RunInMemory>& runs) {
  std::vector<std::span<float>> all;
  for (const RunInMemory& run : runs)
    all.emplace_back(run.memory, static_cast<std::size_t>(run.run.length));
  std::ranges::sort(all, {}, [](std::span<float> region) { return region.data(); });
  std::vector<std::span<float>> regions;
  for (const std::span<float> next : all) {
    if (regions.empty() || regions.back().data() + regions.back().size() != next.data())
      regions.push_back(next);
    else
      regions.back() = {regions.back().data(), regions.back().size() + next.size()};
  }
  return regions;
}

}  // namespace

std::int64_t StateImage::elements() const {
  std::int64_t elements = 0;
  for (const std::span<float> region : regions) elements += std::ssize(region);
  return elements;
}

std::span<float> StateImage::at(std::int64_t first, std::int64_t length) const {
  for (const std::span<float> region : regions) {
    if (first < std::ssize(region)) {
      CLEAVE_CHECK(first + length <= std::ssize(region), "a run in two regions of an image");
      return region.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(length));
    }
    first -= std::ssize(region);
  }
  CLEAVE_CHECK(length == 0, "a run past the end of an image");
  return {};
}

StateImage image_of(const engine::Device& device, const checkpoint::CheckpointLayout& layout,
                    Whose whose) {
  std::vector<RunInMemory> runs;
  const auto& parameters = layout.parameters();
  for (const auto* tensors : {&device.tensors(), &device.copies()}) {
    if (tensors == &device.copies() && whose == Whose::Own) break;
    for (const engine::TensorState& tensor : *tensors) {
      const auto found =
          std::ranges::lower_bound(parameters, tensor.name, {}, &checkpoint::Parameter::name);
      if (!tensor.trained() || found == parameters.end() || found->name != tensor.name) continue;
      add_runs(tensor, static_cast<std::int32_t>(found - parameters.begin()), runs);
    }
  }
  StateImage image{.stripes = {}, .regions = regions_of(runs)};
  std::vector<std::int64_t> starts;
  std::int64_t start = 0;
  for (const std::span<float> region : image.regions) {
    starts.push_back(start);
    start += std::ssize(region);
  }
  std::vector<TensorRun> placed;
  for (RunInMemory& run : runs) {
    const auto after = std::ranges::upper_bound(image.regions, run.memory, {},
                                                [](std::span<float> r) { return r.data(); });
    const auto region = static_cast<std::size_t>(after - image.regions.begin()) - 1;
    run.run.at = starts[region] + (run.memory - image.regions[region].data());
    placed.push_back(run.run);
  }
  image.stripes = stripes_of(placed);
  return image;
}

StateImage image_in(const std::vector<Stripe>& stripes, std::span<float> memory) {
  return {.stripes = stripes, .regions = {memory}};
}

}  // namespace cleave::train
