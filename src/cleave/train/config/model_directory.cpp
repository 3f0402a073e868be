#include "cleave/train/config/model_directory.h"

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/checkpoint/weight_files.h"
#include "cleave/model/hugging_face.h"
#include "cleave/train/config/config_schema.h"

namespace cleave::train {

namespace fs = std::filesystem;

ModelShape shape_in(const fs::path& directory) {
  const fs::path file = directory / checkpoint::kConfigFile;
  require(checkpoint::is_hugging_face(directory), "there is no ", file.string(),
          "; a Hugging Face directory has a config.json beside its weights");
  return model::read_config_json(read_text(file), file.string());
}

void check_follows(const Config& config, const ModelShape& directory) {
  Config theirs = config;
  theirs.model = directory;
  theirs.model.vision.cached = config.model.vision.cached;
  if (config.model == theirs.model) return;
  for (const Key& key : config_keys()) {
    const std::optional<Value> ours = key.get(config);
    const std::optional<Value> there = key.get(theirs);
    const auto text = [](const auto& value) { return value ? to_toml(*value) : "not given"; };
    require(text(ours) == text(there), key.name, " is ", text(ours), ", but the config.json in ",
            config.from, " says ", text(there), "; leave the key out");
  }
}

}  // namespace cleave::train
