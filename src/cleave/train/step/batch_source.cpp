#include "cleave/train/step/batch_source.h"

#include <algorithm>
#include <span>

#include "cleave/base/check.h"
#include "cleave/data/image/image_texts.h"
#include "cleave/spec/layers.h"
#include "cleave/tensor/bf16.h"

namespace cleave::train {

SampleReader::SampleReader(const data::Dataset& data, const Graph& model, std::int64_t microbatch)
    : data_(&data),
      microbatch_(microbatch),
      packs_images_(std::ranges::count(model.inputs, "places", &Graph::Input::name) > 0),
      room_(2 * static_cast<std::size_t>(data.room())) {
  for (const Graph::Input& input : model.inputs) {
    if (input.tensor.dtype != DType::BF16) continue;
    const std::int64_t row = input.tensor.shape.elements() / microbatch;
    values_.resize(std::max(values_.size(), static_cast<std::size_t>(row)));
  }
}

std::int64_t SampleReader::images_of(std::int64_t window) const {
  return window < data_->windows() ? data_->images(window) : 0;
}

bool SampleReader::is_packed(std::string_view input) const {
  return packs_images_ && (input == "patches" || data::feature_of(input) >= 0);
}

SampleReader::Row SampleReader::images_after(std::string_view input, View tensor,
                                             std::int64_t images) const {
  const auto first = static_cast<std::size_t>(images * data_->image_values(input));
  return {first, static_cast<std::size_t>(tensor.elements()) - first};
}

void SampleReader::read_row(std::string_view input, View tensor, std::int64_t row,
                            const Sample& sample) {
  const auto length = static_cast<std::size_t>(tensor.elements() / microbatch_);
  const std::size_t first = static_cast<std::size_t>(row) * length;
  if (is_packed(input)) {
    const auto values =
        static_cast<std::size_t>(images_of(sample.window.number) * data_->image_values(input));
    if (values == 0) return;
    return read_elements(input, tensor,
                         {images_after(input, tensor, sample.images_before).first, values}, sample);
  }
  if (sample.window.number >= data_->windows()) return fill_row(input, tensor, {first, length});
  read_elements(input, tensor, {first, length}, sample);
}

void SampleReader::read_elements(std::string_view input, View tensor, Row row,
                                 const Sample& sample) {
  const auto [first, length] = row;
  data::SampleRow out{.room = room_, .epoch = sample.window.epoch, .images = sample.images_before};
  if (tensor.dtype() == DType::I32) {
    out.ids = {tensor.as<std::int32_t>() + first, length};
    return data_->read(sample.window.number, input, out);
  }
  if (tensor.dtype() == DType::F32) {
    out.values = {tensor.as<float>() + first, length};
    return data_->read(sample.window.number, input, out);
  }
  CLEAVE_CHECK(length <= values_.size(), length, " of ", values_.size());
  out.values = std::span(values_).first(length);
  data_->read(sample.window.number, input, out);
  BFloat16* rounded = tensor.as<BFloat16>() + first;
  for (std::size_t i = 0; i < length; ++i) rounded[i] = to_bf16(values_[i]);
}

void SampleReader::fill_row(std::string_view input, View tensor, Row row) {
  if (tensor.dtype() == DType::I32) {
    static_assert(data::kNoTarget == data::ImageTexts::kNoPlace);
    const std::int32_t id = input == "tokens" || input == spec::kDocuments ? 0 : data::kNoTarget;
    std::fill_n(tensor.as<std::int32_t>() + row.first, row.length, id);
  } else if (tensor.dtype() == DType::F32) {
    std::fill_n(tensor.as<float>() + row.first, row.length, 0.0f);
  } else {
    std::fill_n(tensor.as<BFloat16>() + row.first, row.length, to_bf16(0.0f));
  }
}

void BatchSource::load(int index, std::string_view input, View tensor) {
  reader_.read(input, tensor, [&](std::int64_t row) { return window_at(index, row); });
}

std::int64_t BatchSource::items(int index) const {
  return reader_.images([&](std::int64_t row) { return window_at(index, row); });
}

SampleReader::Window BatchSource::window_at(int index, std::int64_t row) const {
  const std::int64_t number = sample(index, row);
  return {window(number), epoch(number)};
}

void BatchSource::begin_step(std::int64_t step) {
  step_ = step;
  if (order_.empty()) return;
  std::size_t with = 0;
  std::size_t without = order_.size();
  for (std::int64_t i = 0; i < std::ssize(order_); ++i)
    order_[data_->images(window(i)) > 0 ? with++ : --without] = i;
  std::reverse(order_.begin() + static_cast<std::ptrdiff_t>(with), order_.end());
  with_images_ = (static_cast<std::int64_t>(with) + share_.microbatch - 1) / share_.microbatch;
}

std::int64_t BatchSource::sample(int index, std::int64_t row) const {
  if (order_.empty()) return share_.first + index * share_.microbatch + row;
  const std::int64_t first = share_.dealing.number_of(index) * share_.microbatch;
  return order_[static_cast<std::size_t>(first + row)];
}

std::int64_t BatchSource::step_targets() const {
  std::int64_t sum = 0;
  for (std::int64_t sample = 0; sample < data_->batch(); ++sample)
    sum += data_->window_targets(window(sample));
  return sum;
}

float BatchSource::loss_scale() const {
  return static_cast<float>(1.0 / static_cast<double>(std::max<std::int64_t>(1, step_targets())));
}

/// The window that is this sample of the batch.
std::int64_t BatchSource::window(std::int64_t sample) const {
  if (clients_ == nullptr) return data_->window(step_, sample);
  if (client_ >= 0) return clients_->window(client_, number_ + sample);
  return clients_->window(static_cast<int>(sample / rows_), step_ * rows_ + sample % rows_);
}

/// How often its owner has gone through all of its samples before.
std::int64_t BatchSource::epoch(std::int64_t sample) const {
  if (clients_ == nullptr) return data_->epoch(step_, sample);
  if (client_ >= 0) return clients_->epoch(client_, number_ + sample);
  return clients_->epoch(static_cast<int>(sample / rows_), step_ * rows_ + sample % rows_);
}

void ValidationSource::load(int index, std::string_view input, View tensor) {
  reader_.read(input, tensor, [&](std::int64_t row) { return window_at(index, row); });
}

std::int64_t ValidationSource::items(int index) const {
  return reader_.images([&](std::int64_t row) { return window_at(index, row); });
}

SampleReader::Window ValidationSource::window_at(int index, std::int64_t row) const {
  const std::int64_t microbatch = run_.first + std::min(number_ + index, run_.count - 1);
  const bool past = run_.count == 0 || (!order_.empty() && number_ + index >= run_.count);
  const std::int64_t first = past ? past_ : begins_[static_cast<std::size_t>(microbatch)];
  const std::int64_t window = first + row;
  const bool moved = window < std::ssize(order_);
  return {.number = moved ? order_[static_cast<std::size_t>(window)] : window};
}

}  // namespace cleave::train
