#include "cleave/train/step/dealing.h"

#include <algorithm>
#include <map>

namespace cleave::train {
namespace {

bool has_optional_inputs(const Graph& model) {
  const std::vector<bool> optional = optional_segments(model);
  return std::ranges::count(optional, true) > 0;
}

std::int64_t microbatches_for(std::int64_t samples, std::int64_t microbatch) {
  return (samples + microbatch - 1) / microbatch;
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
  if (!deals_by_content(model, clients)) return {};
  DataInputs inputs{.steps = step_inputs(config, data.training())};
  if (data.validation() != nullptr)
    inputs.evaluated = evaluated_inputs(model, *data.validation(), *config.train.microbatch);
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
