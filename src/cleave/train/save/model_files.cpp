#include "cleave/train/save/model_files.h"

#include <algorithm>

#include "cleave/base/file.h"
#include "cleave/checkpoint/weight_files.h"
#include "cleave/data/given_tokens.h"
#include "cleave/model/hugging_face.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kTokenizerNames = "tokenizer_config.json";

/// What belongs to a tokenizer.json or tokenizer.model, and says how to generate.
constexpr const char* kCompanions[] = {kTokenizerNames, "special_tokens_map.json",
                                       "added_tokens.json", "chat_template.jinja", kGeneration};

bool holds_numbers(const data::DataPath& data) {
  if (data.path.starts_with(data::kGivenPrefix)) return true;
  fs::path path = data.path;
  if (path.extension() == ".gz" || path.extension() == ".zst") path = path.stem();
  return path.extension() == ".bin" || path.extension() == ".npy";
}

}  // namespace

bool reads_bytes(const Config& config) {
  if (!config.model.kind->reads_tokens || config.data.path.empty()) return false;
  if (!config.data.tokenizer.empty()) return config.data.tokenizer == "bytes";
  return !holds_numbers(config.data.path[0]);
}

std::vector<ModelFile> model_files(const ModelShape& shape, const std::string& dtype,
                                   const fs::path& beside) {
  if (shape.kind->hugging_face == nullptr) return {};
  std::vector<ModelFile> files;
  if (model::has_config_json(shape))
    files.push_back({std::string(checkpoint::kConfigFile), model::config_json(shape, dtype)});
  for (const char* name : {kTokenizer, "tokenizer.model"})
    if (fs::exists(beside / name)) files.push_back({name, read_text(beside / name)});
  for (const char* name : kCompanions)
    if (fs::exists(beside / name)) files.push_back({name, read_text(beside / name)});
  const auto has = [&](const char* name) {
    return std::ranges::find(files, name, &ModelFile::name) != files.end();
  };
  if (!has(kGeneration)) files.push_back({kGeneration, "{\n  \"_from_model_config\": true\n}\n"});
  if (has(kTokenizer) && !has(kTokenizerNames)) {
    files.push_back(
        {kTokenizerNames, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n"});
  }
  return files;
}

void copy_companions(const fs::path& from, const fs::path& to) {
  for (const char* name : kCompanions) {
    std::error_code same;
    if (!fs::exists(from / name) || fs::equivalent(from / name, to / name, same)) continue;
    write_text_atomically(to / name, read_text(from / name));
  }
}

}  // namespace cleave::train
