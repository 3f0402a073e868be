#include <memory>

#include "command.h"
#include "files.h"
#include "json_text.h"
#include "words.h"
#include <nlohmann/json.hpp>

#include "cleave/model/family.h"
#include "cleave/model/presets.h"
#include "cleave/report/text_table.h"

namespace cleave::app {
namespace {

/// With layers as they are for one sequence of the longest length.
std::int64_t parameters_of(const ModelShape& shape) {
  return parameter_count(model::graph_of(shape, {.sequences = 1, .sequence = shape.context}));
}

nlohmann::json presets_json() {
  nlohmann::json all = nlohmann::json::array();
  for (const model::Preset& preset : model::presets()) {
    const ModelShape& shape = preset.shape;
    all.push_back({{"name", preset.name},
                   {"about", preset.about},
                   {"kind", shape.kind->name},
                   {"parameters", parameters_of(shape)},
                   {"layers", shape.layers},
                   {"hidden", shape.hidden},
                   {"heads", shape.heads},
                   {"kv_heads", shape.kv_heads},
                   {"ffn", shape.ffn},
                   {"vocab", shape.vocab},
                   {"context", shape.context},
                   {"tie_embeddings", shape.tie_embeddings}});
  }
  return {{"presets", all}};
}

std::string presets_text() {
  std::vector<std::vector<std::string>> rows = {
      {"preset", "parameters", "layers", "hidden", "heads", "context"}};
  for (const model::Preset& preset : model::presets()) {
    const ModelShape& shape = preset.shape;
    rows.push_back({std::string(preset.name), rounded_count(parameters_of(shape)),
                    std::to_string(shape.layers), std::to_string(shape.hidden),
                    std::to_string(shape.heads), std::to_string(shape.context)});
  }
  return report::text_table(rows);
}

}  // namespace

void add_presets_command(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("presets", "List the model shapes that have a name.");
  verb->add_flag("--json", *json, "Print one JSON object, with exact numbers");
  verb->footer(
      "Examples:\n"
      "  cleave presets\n"
      "  cleave plan --model llama3-8b --cluster a100-80gb:8 --batch 64");
  verb->callback([json] { write_file("", *json ? json_text(presets_json()) : presets_text()); });
}

}  // namespace cleave::app
