#include "cleave/train/save/saving.h"

#include <algorithm>
#include <map>

#include "cleave/base/version.h"
#include "cleave/checkpoint/directory.h"
#include "cleave/checkpoint/writer.h"
#include "cleave/model/hugging_face.h"
#include "cleave/train/config/config_value.h"
#include "cleave/train/save/adapters.h"
#include "cleave/train/save/model_files.h"
#include "cleave/train/save/sent_runs.h"
#include "cleave/train/step/round_slots.h"

namespace cleave::train {

namespace {

/// What rounds need in their midst comes last, so the others keep their numbers.
std::vector<std::string> saved_slots(const ParameterSpec& parameter) {
  std::vector<std::string> slots = parameter.slots;
  std::erase_if(slots, [](const std::string& slot) { return is_transient(slot); });
  return slots;
}

}  // namespace

checkpoint::CheckpointLayout checkpoint_layout(const Graph& model) {
  std::map<std::string, checkpoint::Parameter> parameters;
  for (const SegmentSpec& segment : model.segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        if (!parameter.tied_to.empty()) continue;
        for (const Piece& piece : parameter.pieces) {
          parameters[piece.name] = {piece.name, parameter.shape.with(piece.dim, piece.whole),
                                    saved_slots(parameter)};
        }
      }
    }
  }
  std::vector<checkpoint::Parameter> sorted;
  for (auto& [name, parameter] : parameters) sorted.push_back(std::move(parameter));
  return checkpoint::CheckpointLayout(std::move(sorted));
}

checkpoint::CheckpointLayout checkpoint_layout(const Graph& model, const ModelShape& shape) {
  std::vector<checkpoint::Parameter> parameters = checkpoint_layout(model).parameters();
  for (checkpoint::Parameter& parameter : parameters)
    parameter.shape = model::stored_shape(shape, parameter.name, parameter.shape);
  return checkpoint::CheckpointLayout(std::move(parameters));
}

checkpoint::CheckpointLayout joined_layout(const checkpoint::CheckpointLayout& own,
                                           const checkpoint::CheckpointLayout& held,
                                           const std::set<std::string>& own_tensors) {
  std::vector<checkpoint::Parameter> parameters = own.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!own_tensors.contains(parameters[i].name)) parameters[i] = held.parameters()[i];
  return checkpoint::CheckpointLayout(std::move(parameters));
}

Config config_of(const checkpoint::CheckpointReader& checkpoint) {
  if (checkpoint.foreign())
    return parse_config("[model]\nfrom = " + to_toml(Value(checkpoint.path().string())),
                        "model.from");
  const std::filesystem::path file = checkpoint.path() / checkpoint::kStateFile;
  return parse_config(checkpoint.state().config, file.string() + " (config)");
}

std::filesystem::path SavePoint::root() const {
  return std::filesystem::path(config->train.out) / "checkpoints";
}

namespace {

void for_each_run_of(const engine::Device& device, const SavePoint& at, Lasting lasting,
                     const SavedRun& visit) {
  if (!device.is_owner()) return;
  const auto& parameters = at.layout->parameters();
  for (const engine::TensorState& tensor : device.tensors()) {
    if (tensor.trained() != (lasting == Lasting::OneStep)) continue;
    const auto found =
        std::ranges::lower_bound(parameters, tensor.name, {}, &checkpoint::Parameter::name);
    const auto index = static_cast<std::size_t>(found - parameters.begin());
    tensor.for_each_weight_run([&](std::int64_t first, std::span<float> run) {
      visit(checkpoint::Part::Weight, index, first, run);
    });
    for (std::size_t i = 0; i < tensor.slots.size(); ++i) {
      if (is_transient(tensor.slots[i].name)) break;
      tensor.for_each_run(tensor.slots[i].values, [&](std::int64_t first, std::span<float> run) {
        visit(static_cast<checkpoint::Part>(i), index, first, run);
      });
    }
  }
}

}  // namespace

void for_each_saved_run(const SavePoint& at, Lasting lasting, const SavedRun& visit) {
  for_each_run_of(*at.device, at, lasting, visit);
  if (at.held != nullptr) for_each_run_of(*at.held, at, lasting, visit);
}

void commit(const SavePoint& at, std::int64_t step) {
  // The checkpoint has the weights itself, wherever they came from.
  Config config = *at.config;
  config.from.clear();
  const std::filesystem::path draft = checkpoint::draft_path(at.root(), step);
  if (config.lora.rank > 0) {
    // Other tools open the adapters; a config.json here would let them forget these silently.
    save_adapters(*at.config, draft / checkpoint::kModelFile, draft / kAdapterDirectory);
  } else {
    for (const auto& [name, text] : model_files(config, "float32", config.train.out))
      checkpoint::add_file(at.root(), step, name, text);
  }
  checkpoint::commit_checkpoint(at.root(), *at.layout,
                                {.step = step,
                                 .data_position = step,
                                 .seed = at.config->train.seed,
                                 .config = to_toml(config),
                                 .version = std::string(version()),
                                 .data = at.data},
                                at.world->size(), at.config->train.keep);
}

namespace {

void write_runs(const SavePoint& at, std::int64_t step) {
  checkpoint::CheckpointWriter writer(at.root(), step, *at.layout, at.index());
  for (const Lasting lasting : {Lasting::OneStep, Lasting::Always}) {
    for_each_saved_run(
        at, lasting,
        [&](checkpoint::Part part, std::size_t parameter, std::int64_t first,
            std::span<const float> run) { writer.write(part, parameter, first, run); });
  }
  writer.finish();
}

}  // namespace

void save(const SavePoint& at, std::int64_t step) {
  if (at.is_first()) checkpoint::prepare_checkpoint(at.root(), step, *at.layout);
  at.world->barrier().wait();
  const bool sees_files = at.shares_files || at.is_first();
  if (sees_files) write_runs(at, step);
  if (!sees_files) send_runs(at);
  if (!at.shares_files && at.is_first()) write_sent_runs(at, step);
  at.world->barrier().wait();
  if (at.is_first()) commit(at, step);
  at.world->barrier().wait();
}

bool is_in(const checkpoint::CheckpointLayout& layout, const std::string& tensor) {
  return std::ranges::binary_search(layout.parameters(), tensor, {}, &checkpoint::Parameter::name);
}

void load(const checkpoint::CheckpointReader& reader, const checkpoint::CheckpointLayout& layout,
          engine::Device& device) {
  reader.expect(layout.parameters());
  for (const auto* tensors : {&device.tensors(), &device.copies()}) {
    for (const engine::TensorState& tensor : *tensors) {
      if (!is_in(layout, tensor.name)) continue;
      tensor.set_weight([&](std::int64_t first, std::span<float> run) {
        reader.read_weight(tensor.name, first, run);
      });
      if (reader.what() == checkpoint::Load::WeightsOnly) continue;
      for (const engine::SlotState& slot : tensor.slots) {
        if (is_transient(slot.name)) break;
        tensor.set_runs(slot.values, [&](std::int64_t first, std::span<float> run) {
          reader.read_slot(tensor.name, slot.name, first, run);
        });
      }
    }
  }
  device.refresh_values();
}

}  // namespace cleave::train
