#include "cleave/train/saving.h"

#include <algorithm>
#include <map>

#include "cleave/base/version.h"
#include "cleave/train/checkpoint_writer.h"

namespace cleave::train {
namespace {

std::filesystem::path root_of(const Config& config) {
  return std::filesystem::path(config.train.out) / "checkpoints";
}

View part_of(const runtime::TensorState& tensor, Part part) {
  return part == Part::Weight ? tensor.master : part == Part::FirstMoment ? tensor.m : tensor.v;
}

void barrier(comm::Communicator* world) {
  if (world != nullptr) world->barrier().wait();
}

void write(const runtime::Device& device, const CheckpointLayout& layout,
           CheckpointWriter& writer) {
  const auto& parameters = layout.parameters();
  for (const runtime::TensorState& tensor : device.tensors()) {
    const auto found = std::ranges::lower_bound(parameters, tensor.name, {}, &Parameter::name);
    const auto index = static_cast<std::size_t>(found - parameters.begin());
    for (Part part : kParts) {
      tensor.for_each_run(part_of(tensor, part), [&](std::int64_t first, std::span<float> run) {
        writer.write(part, index, first, run);
      });
    }
  }
}

}  // namespace

CheckpointLayout checkpoint_layout(const ModelSpec& model) {
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
  std::vector<Parameter> parameters;
  for (const auto& [name, shape] : shapes) parameters.push_back({name, shape});
  return CheckpointLayout(std::move(parameters));
}

void save(const Config& config, const CheckpointLayout& layout, std::int64_t step, int replica,
          runtime::Device& device, comm::Communicator* world) {
  const std::filesystem::path root = root_of(config);
  const bool first = world == nullptr || world->rank() == 0;
  if (first) prepare_checkpoint(root, step, layout);
  barrier(world);
  CheckpointWriter writer(root, step, layout, first ? 0 : world->rank());
  if (replica == 0) write(device, layout, writer);
  writer.finish();
  barrier(world);
  if (first) {
    commit_checkpoint(root, layout,
                      {.step = step,
                       .data_position = step,
                       .seed = config.train.seed,
                       .config = to_toml(config),
                       .version = std::string(version())},
                      world == nullptr ? 1 : world->size(), config.train.keep);
  }
  barrier(world);
}

void load(const CheckpointReader& reader, const CheckpointLayout& layout, Load what,
          runtime::Device& device) {
  reader.expect(layout.parameters());
  for (const auto* tensors : {&device.tensors(), &device.copies()}) {
    for (const runtime::TensorState& tensor : *tensors) {
      for (Part part : kParts) {
        if (part != Part::Weight && what == Load::WeightsOnly) continue;
        tensor.for_each_run(part_of(tensor, part), [&](std::int64_t first, std::span<float> run) {
          reader.read(part, tensor.name, first, run);
        });
      }
    }
  }
  device.refresh_values();
}

}  // namespace cleave::train
