#include "cleave/train/save/adapters.h"

#include <algorithm>
#include <set>

#include "cleave/base/file.h"
#include "cleave/checkpoint/adapter.h"
#include "cleave/checkpoint/weight_files.h"
#include "cleave/spec/lora.h"
#include "cleave/train/save/model_files.h"
#include "cleave/train/step/trainer.h"

namespace cleave::train {
namespace {

using checkpoint::CheckpointLayout;
using checkpoint::TensorEntry;

std::vector<TensorEntry> adapters_in(const CheckpointLayout& layout) {
  std::vector<TensorEntry> adapters;
  for (const checkpoint::Parameter& parameter : layout.parameters()) {
    if (is_adapter(parameter.name))
      adapters.push_back({.name = parameter.name, .shape = parameter.shape});
  }
  return adapters;
}

/// "q_proj" of "model.layers.0.self_attn.q_proj".
std::string last_name(const std::string& module) {
  return module.substr(module.rfind('.') + 1);
}

/// What PEFT is to call the targets: by their last names if those name no other linear layer.
std::vector<std::string> target_modules(const std::vector<LinearTensor>& tensors) {
  std::set<std::string> last;
  std::vector<std::string> modules;
  for (const LinearTensor& tensor : tensors) {
    if (!tensor.adapted) continue;
    modules.push_back(module_of(tensor.name));
    last.insert(last_name(modules.back()));
  }
  const bool others = std::ranges::any_of(tensors, [&](const LinearTensor& tensor) {
    return !tensor.adapted && last.contains(last_name(module_of(tensor.name)));
  });
  return others ? modules : std::vector<std::string>(last.begin(), last.end());
}

/// The directory of the model that becomes the trained one with the adapters; empty if there is
/// none: without model.from, or where weights were trained beside the adapters.
std::string base_of(const Config& config) {
  if (config.from.empty() || !config.trained.empty()) return "";
  return std::filesystem::absolute(config.from).lexically_normal().string();
}

}  // namespace

CheckpointLayout layout_in(const checkpoint::CheckpointReader& reader,
                           const CheckpointLayout& layout) {
  const auto has = [&](const TensorEntry& tensor) { return is_adapter(tensor.name); };
  if (std::ranges::any_of(reader.model().tensors, has)) return layout;
  std::vector<checkpoint::Parameter> weights = layout.parameters();
  std::erase_if(weights, [](const auto& parameter) { return is_adapter(parameter.name); });
  return CheckpointLayout(std::move(weights));
}

void check_adapters(const Config& config, const CheckpointLayout& layout) {
  if (config.adapters.empty()) return;
  checkpoint::AdapterReader(config.adapters).expect(adapters_in(layout));
}

void load_adapters(const Config& config, const CheckpointLayout& layout, engine::Device& device) {
  if (config.adapters.empty()) return;
  const checkpoint::AdapterReader reader(config.adapters);
  reader.expect(adapters_in(layout));
  for (const auto* tensors : {&device.tensors(), &device.copies()}) {
    for (const engine::TensorState& tensor : *tensors) {
      if (!is_adapter(tensor.name)) continue;
      tensor.set_weight(
          [&](std::int64_t first, std::span<float> run) { reader.read(tensor.name, first, run); });
    }
  }
  device.refresh_values();
}

void save_adapters(const Config& config, const std::filesystem::path& model,
                   const std::filesystem::path& directory) {
  const Graph graph = model_of(config);
  const std::vector<LinearTensor> tensors = linear_tensors(graph);
  const checkpoint::SafetensorsFile file(model);
  checkpoint::SavedAdapter adapter{.lora = config.lora, .base = base_of(config)};
  adapter.lora.targets = target_modules(tensors);
  adapter.transposed = std::ranges::any_of(tensors, [](const LinearTensor& tensor) {
    return tensor.adapted && tensor.stored == Transpose::No;
  });
  for (const TensorEntry& tensor : file.header().tensors)
    if (is_adapter(tensor.name)) adapter.tensors.push_back(tensor);
  adapter.read = [&](const TensorEntry& tensor, std::span<float> elements) {
    file.read(tensor, 0, elements);
  };
  checkpoint::write_adapter(directory, adapter);
  for (const auto& [name, text] : model_files(config, "float32", config.train.out)) {
    // The base has these.
    if (name == checkpoint::kConfigFile || name == kGenerationFile) continue;
    write_text_atomically(directory / name, text);
  }
}

MergedWeights::MergedWeights(const Config& config, const checkpoint::CheckpointReader& reader)
    : reader_(&reader),
      scale_(config.lora.rank == 0 ? 0 : config.lora.scale()),
      rank_(config.lora.rank) {
  if (rank_ == 0) return;
  const auto values = [&](const std::string& name, std::int64_t count) {
    std::vector<float> elements(static_cast<std::size_t>(count));
    reader.read_weight(name, 0, elements);
    return elements;
  };
  for (const LinearTensor& tensor : linear_tensors(model_of(config))) {
    if (!tensor.adapted) continue;
    adapters_[tensor.name] = {.down = values(lora_down_name(tensor.name), rank_ * tensor.in),
                              .up = values(lora_up_name(tensor.name), tensor.out * rank_),
                              .in = tensor.in,
                              .out = tensor.out,
                              .transposed = tensor.stored == Transpose::Yes};
  }
}

void MergedWeights::read(const std::string& tensor, std::int64_t first,
                         std::span<float> elements) const {
  reader_->read_weight(tensor, first, elements);
  add_to(tensor, first, elements);
}

void MergedWeights::add_to(const std::string& tensor, std::int64_t first,
                           std::span<float> elements) const {
  const auto found = adapters_.find(tensor);
  if (found == adapters_.end()) return;
  const Adapter& adapter = found->second;
  const std::int64_t columns = adapter.transposed ? adapter.in : adapter.out;
  for (std::int64_t i = 0; i < std::ssize(elements); ++i) {
    const std::int64_t row = (first + i) / columns;
    const std::int64_t column = (first + i) % columns;
    const float* up =
        &adapter.up[static_cast<std::size_t>((adapter.transposed ? row : column) * rank_)];
    const float* down = &adapter.down[static_cast<std::size_t>(adapter.transposed ? column : row)];
    double sum = 0;
    for (std::int64_t k = 0; k < rank_; ++k)
      sum += static_cast<double>(up[k]) * static_cast<double>(down[k * adapter.in]);
    elements[static_cast<std::size_t>(i)] = static_cast<float>(
        static_cast<double>(elements[static_cast<std::size_t>(i)]) + scale_ * sum);
  }
}

}  // namespace cleave::train
