#include "cleave/train/step/batch_source.h"

#include <algorithm>
#include <span>

#include "cleave/base/check.h"
#include "cleave/tensor/bf16.h"

namespace cleave::train {

SampleReader::SampleReader(const data::Dataset& data, const Graph& model, std::int64_t microbatch)
    : data_(&data), microbatch_(microbatch), room_(static_cast<std::size_t>(data.room())) {
  for (const Graph::Input& input : model.inputs) {
    if (input.tensor.dtype != DType::BF16) continue;
    const std::int64_t row = input.tensor.shape.elements() / microbatch;
    values_.resize(std::max(values_.size(), static_cast<std::size_t>(row)));
  }
}

void SampleReader::read_row(std::string_view input, View tensor, std::int64_t row,
                            std::int64_t window) {
  const auto length = static_cast<std::size_t>(tensor.elements() / microbatch_);
  const std::size_t first = static_cast<std::size_t>(row) * length;
  if (window >= data_->windows()) return fill_row(input, tensor, {first, length});
  if (tensor.dtype() == DType::I32)
    return data_->read(window, input, {.ids = {tensor.as<std::int32_t>() + first, length}});
  if (tensor.dtype() == DType::F32)
    return data_->read(window, input,
                       {.values = {tensor.as<float>() + first, length}, .room = room_});
  CLEAVE_CHECK(length <= values_.size(), length, " of ", values_.size());
  data_->read(window, input, {.values = std::span(values_).first(length), .room = room_});
  BFloat16* out = tensor.as<BFloat16>() + first;
  for (std::size_t i = 0; i < length; ++i) out[i] = to_bf16(values_[i]);
}

void SampleReader::fill_row(std::string_view input, View tensor, Row row) {
  if (tensor.dtype() == DType::I32) {
    const std::int32_t id = input == "tokens" ? 0 : data::kNoTarget;
    std::fill_n(tensor.as<std::int32_t>() + row.first, row.length, id);
  } else if (tensor.dtype() == DType::F32) {
    std::fill_n(tensor.as<float>() + row.first, row.length, 0.0f);
  } else {
    std::fill_n(tensor.as<BFloat16>() + row.first, row.length, to_bf16(0.0f));
  }
}

void BatchSource::load(int index, std::string_view input, View tensor) {
  const std::int64_t first = share_.first + index * share_.microbatch;
  reader_.read(input, tensor, [&](std::int64_t row) { return window(first + row); });
}

std::int64_t BatchSource::step_targets() const {
  std::int64_t sum = 0;
  for (std::int64_t sample = 0; sample < data_->batch(); ++sample)
    sum += data_->window_targets(window(sample));
  return sum;
}

/// The window that is this sample of the batch.
std::int64_t BatchSource::window(std::int64_t sample) const {
  if (clients_ == nullptr) return data_->window(step_, sample);
  if (client_ >= 0) return clients_->window(client_, number_ + sample);
  return clients_->window(static_cast<int>(sample / rows_), step_ * rows_ + sample % rows_);
}

void ValidationSource::load(int index, std::string_view input, View tensor) {
  const std::int64_t first = std::min(first_ + index, count_ - 1) * microbatch_;
  reader_.read(input, tensor, [&](std::int64_t row) { return first + row; });
}

}  // namespace cleave::train
