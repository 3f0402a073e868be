#include "cleave/train/save/saving.h"

#include <algorithm>
#include <map>

#include "cleave/base/version.h"
#include "cleave/checkpoint/writer.h"
#include "cleave/train/save/sent_runs.h"

namespace cleave::train {
namespace {

View part_of(const engine::TensorState& tensor, checkpoint::Part part) {
  return part == checkpoint::Part::Weight        ? tensor.master
         : part == checkpoint::Part::FirstMoment ? tensor.m
                                                 : tensor.v;
}

}  // namespace

checkpoint::CheckpointLayout checkpoint_layout(const Graph& model) {
  std::map<std::string, Shape> shapes;
  for (const SegmentSpec& segment : model.segments) {
    for (const LayerSpec& layer : segment.layers) {
      for (const ParameterSpec& parameter : layer.parameters) {
        if (!parameter.tied_to.empty()) continue;
        for (const Piece& piece : parameter.pieces) {
          shapes[piece.name] = parameter.shape.with(piece.dim, piece.whole);
        }
      }
    }
  }
  std::vector<checkpoint::Parameter> parameters;
  for (const auto& [name, shape] : shapes) parameters.push_back({name, shape});
  return checkpoint::CheckpointLayout(std::move(parameters));
}

Config config_of(const checkpoint::CheckpointReader& checkpoint) {
  const std::filesystem::path file = checkpoint.path() / checkpoint::kStateFile;
  return parse_config(checkpoint.state().config, file.string() + " (config)");
}

std::filesystem::path SavePoint::root() const {
  return std::filesystem::path(config->train.out) / "checkpoints";
}

void for_each_saved_run(const SavePoint& at, const SavedRun& visit) {
  if (!at.device->is_owner()) return;
  const auto& parameters = at.layout->parameters();
  for (const engine::TensorState& tensor : at.device->tensors()) {
    const auto found =
        std::ranges::lower_bound(parameters, tensor.name, {}, &checkpoint::Parameter::name);
    const auto index = static_cast<std::size_t>(found - parameters.begin());
    for (checkpoint::Part part : checkpoint::kParts) {
      tensor.for_each_run(part_of(tensor, part), [&](std::int64_t first, std::span<float> run) {
        visit(part, index, first, run);
      });
    }
  }
}

void commit(const SavePoint& at, std::int64_t step) {
  checkpoint::commit_checkpoint(at.root(), *at.layout,
                                {.step = step,
                                 .data_position = step,
                                 .seed = at.config->train.seed,
                                 .config = to_toml(*at.config),
                                 .version = std::string(version())},
                                at.world->size(), at.config->train.keep);
}

namespace {

void write_runs(const SavePoint& at, std::int64_t step) {
  checkpoint::CheckpointWriter writer(at.root(), step, *at.layout, at.index());
  for_each_saved_run(
      at, [&](checkpoint::Part part, std::size_t parameter, std::int64_t first,
              std::span<const float> run) { writer.write(part, parameter, first, run); });
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

void load(const checkpoint::CheckpointReader& reader, const checkpoint::CheckpointLayout& layout,
          engine::Device& device) {
  reader.expect(layout.parameters());
  for (const auto* tensors : {&device.tensors(), &device.copies()}) {
    for (const engine::TensorState& tensor : *tensors) {
      for (checkpoint::Part part : checkpoint::kParts) {
        if (part != checkpoint::Part::Weight && reader.what() == checkpoint::Load::WeightsOnly)
          continue;
        tensor.for_each_run(part_of(tensor, part), [&](std::int64_t first, std::span<float> run) {
          reader.read(part, tensor.name, first, run);
        });
      }
    }
  }
  device.refresh_values();
}

}  // namespace cleave::train
