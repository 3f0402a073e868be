#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "checked.h"

#include "cleave/base/check.h"
#include "cleave/model/hugging_face.h"

// Whatever the bytes are, they are the config.json of a model whose graph is sound, or a UserError.
// The config.json that is written of such a model describes one of the same graph.

namespace {

using cleave::ModelShape;
using cleave::model::graph_of;

/// What a graph costs to build grows with it, and says nothing about how a config.json is read.
constexpr std::int64_t kMostBlocks = 8;

void check_model(const ModelShape& shape) {
  if (std::max(shape.layers, shape.vision.layers) > kMostBlocks) return;
  const cleave::Graph graph = graph_of(shape, {.sequence = 1});
  cleave::check(graph);
  if (!cleave::model::has_config_json(shape)) return;
  const std::string text = cleave::model::config_json(shape, "float32");
  const ModelShape again = cleave::model::read_config_json(text, "written");
  if (graph_of(again, {.sequence = 1}) != graph) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static cleave::fuzz::Checked<ModelShape> shapes;
  std::optional<ModelShape> shape;
  try {
    shape = cleave::model::read_config_json({reinterpret_cast<const char*>(data), size}, "read");
  } catch (const cleave::UserError&) {
    return 0;
  }
  shapes.check_once(std::move(*shape), check_model);
  return 0;
}
