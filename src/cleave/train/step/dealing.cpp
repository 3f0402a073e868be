#include "cleave/train/step/dealing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace cleave::train {
namespace {

bool has_optional_inputs(const Graph& model) {
  const std::vector<bool> optional = optional_segments(model);
  return std::ranges::count(optional, true) > 0;
}

std::int64_t microbatches_for(std::int64_t samples, std::int64_t microbatch) {
  return (samples + microbatch - 1) / microbatch;
}

/// How many microbatches have so many images.
using ImageCounts = std::map<std::int64_t, std::int64_t>;

/// Of samples in the order in which those with images come first. `images_of` [sample].
template <class ImagesOf>
void count_images(std::int64_t samples, std::int64_t microbatch, ImagesOf images_of,
                  ImageCounts& counts) {
  std::int64_t of_microbatch = 0;
  std::int64_t dealt = 0;
  const auto deal = [&](std::int64_t images) {
    of_microbatch += images;
    if (++dealt % microbatch != 0) return;
    ++counts[of_microbatch];
    of_microbatch = 0;
  };
  for (std::int64_t i = 0; i < samples; ++i)
    if (const std::int64_t images = images_of(i); images > 0) deal(images);
  while (dealt < (samples + microbatch - 1) / microbatch * microbatch) deal(0);
}

/// The fewest images whose rows the tensor shards of the grid can share out, one for each at least.
/// It depends on no room, so that the room changes no bit.
std::int64_t least_images(const Config& config, const Graph& model) {
  const std::int64_t room = *config.train.microbatch * config.data.images;
  const std::vector<bool> optional = optional_segments(model);
  std::int64_t rows = model.inputs.front().tensor.shape[0];
  for (std::size_t s = 0; s < optional.size(); ++s) {
    if (!optional[s]) continue;
    for (const LayerSpec& layer : model.segments[s].layers)
      rows = std::min({rows, layer.x.shape[0], layer.y.shape[0]});
  }
  const std::int64_t shards = std::max(
      config.numerics.vision_tensor_shards.value_or(config.numerics.tensor_shards.value_or(1)),
      config.parallel.vision_tensor.value_or(config.parallel.tensor.value_or(1)));
  const std::int64_t of_image = std::max<std::int64_t>(1, rows / room);
  return (shards + of_image - 1) / of_image;
}

/// What is compiled for: everything that `counts` has, filled up to the least.
void set_images(const Config& config, const Graph& model, const ImageCounts& counts,
                DataInputs& inputs) {
  const std::int64_t room = *config.train.microbatch * config.data.images;
  const std::int64_t least = least_images(config, model);
  std::set<std::int64_t> images;
  double sum = 0;
  double microbatches = 0;
  for (const auto& [count, times] : counts) {
    images.insert(std::max(count, least));
    if (count == 0) continue;  // they have no tower
    sum += static_cast<double>(std::max(count, least) * times);
    microbatches += static_cast<double>(times);
  }
  const auto far = [&](std::int64_t count) {
    return std::abs(static_cast<double>(count) - sum / std::max(1.0, microbatches));
  };
  const auto usual = std::ranges::min_element(images, {}, far);
  inputs.usual_images =
      usual == images.end() || *usual >= room ? engine::MicrobatchSource::kAll : *usual;
  images.erase(images.lower_bound(room), images.end());
  inputs.images.assign(images.begin(), images.end());
}

void count_steps(const Config& config, const data::Dataset& data, ImageCounts& counts) {
  for (std::int64_t step = 0; step < config.train.steps; ++step) {
    const auto images_of = [&](std::int64_t i) { return data.images(data.window(step, i)); };
    count_images(data.batch(), *config.train.microbatch, images_of, counts);
  }
}

void count_windows(const Config& config, const data::Dataset& data, ImageCounts& counts) {
  const std::int64_t microbatch = *config.train.microbatch;
  const std::int64_t windows = data.tail() == data::Tail::FilledUp
                                   ? data.windows()
                                   : data.windows() / microbatch * microbatch;
  count_images(
      windows, microbatch, [&](std::int64_t w) { return data.images(w); }, counts);
}

/// Samples of clients come in any order.
ImageCounts all_counts(const Config& config) {
  ImageCounts counts;
  for (std::int64_t n = 0; n <= *config.train.microbatch * config.data.images; ++n) counts[n] = 1;
  return counts;
}

std::vector<engine::InputCount> step_inputs(const Config& config, const data::Dataset& data) {
  const std::int64_t microbatch = *config.train.microbatch;
  std::map<std::int64_t, std::int64_t> steps;  // microbatches with images -> how many are like that
  for (std::int64_t step = 0; step < config.train.steps; ++step) {
    std::int64_t with = 0;
    for (std::int64_t i = 0; i < data.batch(); ++i) with += data.images(data.window(step, i)) > 0;
    ++steps[microbatches_for(with, microbatch)];
  }
  if (steps.empty() || steps.begin()->first == data.batch() / microbatch) return {};
  std::vector<engine::InputCount> counts;
  for (const auto& [with, count] : steps) counts.push_back({static_cast<int>(with), count});
  return counts;
}

}  // namespace

bool deals_by_content(const Graph& model, const ClientData* clients) {
  return clients == nullptr && has_optional_inputs(model);
}

DataInputs inputs_of(const Config& config, const Graph& model, const data::Data& data,
                     const ClientData* clients) {
  DataInputs inputs;
  if (!has_optional_inputs(model)) return inputs;
  if (clients != nullptr) {
    set_images(config, model, all_counts(config), inputs);
    return inputs;
  }
  ImageCounts counts;
  inputs.steps = step_inputs(config, data.training());
  count_steps(config, data.training(), counts);
  if (data.validation() != nullptr) {
    inputs.evaluated = evaluated_inputs(model, *data.validation(), *config.train.microbatch);
    count_windows(config, *data.validation(), counts);
  }
  set_images(config, model, counts, inputs);
  return inputs;
}

DataInputs evaluated_data_inputs(const Config& config, const Graph& model,
                                 const data::Dataset& data) {
  DataInputs inputs;
  if (!has_optional_inputs(model)) return inputs;
  ImageCounts counts;
  inputs.evaluated = evaluated_inputs(model, data, *config.train.microbatch);
  count_windows(config, data, counts);
  set_images(config, model, counts, inputs);
  return inputs;
}

engine::EvaluatedInputs evaluated_inputs(const Graph& model, const data::Dataset& data,
                                         std::int64_t microbatch) {
  if (!has_optional_inputs(model)) return {};
  const std::int64_t count = data.tail() == data::Tail::FilledUp
                                 ? microbatches_for(data.windows(), microbatch)
                                 : data.windows() / microbatch;
  std::int64_t with = 0;
  for (std::int64_t w = 0; w < std::min(data.windows(), count * microbatch); ++w)
    with += data.images(w) > 0;
  return {.with = microbatches_for(with, microbatch), .microbatches = count};
}

}  // namespace cleave::train
