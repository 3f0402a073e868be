#include "cleave/checkpoint/inspect.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/units.h"
#include "cleave/base/utf8.h"

namespace cleave::checkpoint {
namespace {

using nlohmann::json;

std::int64_t parameters_in(const CheckpointReader& checkpoint) {
  std::int64_t count = 0;
  for (const TensorEntry& tensor : checkpoint.model().tensors) count += tensor.shape.elements();
  return count;
}

std::int64_t bytes_in(const CheckpointReader& checkpoint) {
  std::int64_t bytes = 0;
  for (const Manifest::Entry& entry : checkpoint.manifest().files) bytes += entry.bytes;
  return bytes;
}

std::string list_of_tensors(const CheckpointReader& checkpoint) {
  std::string text;
  for (const TensorEntry& tensor : checkpoint.model().tensors) {
    text += fmt::format("{:<44} {:<20} {:>10}\n", printable_line(tensor.name),
                        to_string(tensor.shape), format_bytes(tensor.bytes()));
  }
  return text;
}

/// Describes a Hugging Face directory, which has no state.
std::string foreign_text(const CheckpointReader& checkpoint) {
  return fmt::format("{}\na Hugging Face directory\n{} parameters in {} tensors\n\n{}",
                     checkpoint.path().string(), parameters_in(checkpoint),
                     checkpoint.model().tensors.size(), list_of_tensors(checkpoint));
}

}  // namespace

std::string inspect_text(const CheckpointReader& checkpoint) {
  const auto& tensors = checkpoint.model().tensors;
  const CheckpointState& state = checkpoint.state();
  if (checkpoint.foreign()) return foreign_text(checkpoint);
  std::string text = fmt::format(
      "{}\nstep {}, seed {}, saved by cleave {}\n{} parameters in {} tensors, {} with the "
      "optimizer\n\n",
      checkpoint.path().string(), state.step, state.seed, printable_line(state.version),
      parameters_in(checkpoint), tensors.size(), format_bytes(bytes_in(checkpoint)));
  return text + list_of_tensors(checkpoint) + "\n" + printable(state.config);
}

std::string inspect_json(const CheckpointReader& checkpoint) {
  json tensors = json::array();
  for (const TensorEntry& tensor : checkpoint.model().tensors) {
    json shape = json::array();
    for (int dim = 0; dim < tensor.shape.rank(); ++dim) shape.push_back(tensor.shape[dim]);
    tensors.push_back({{"name", tensor.name}, {"shape", std::move(shape)}});
  }
  const CheckpointState& state = checkpoint.state();
  const json all = {{"path", checkpoint.path().string()},
                    {"step", state.step},
                    {"data_position", state.data_position},
                    {"seed", state.seed},
                    {"version", state.version},
                    {"config", state.config},
                    {"parameters", parameters_in(checkpoint)},
                    {"bytes", bytes_in(checkpoint)},
                    {"tensors", std::move(tensors)}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";  // paths are any bytes
}

}  // namespace cleave::checkpoint
