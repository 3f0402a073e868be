#include "cleave/train/save/model_files.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cleave/base/file.h"
#include "cleave/base/shallow_json.h"
#include "cleave/checkpoint/weight_files.h"
#include "cleave/data/given_tokens.h"
#include "cleave/model/hugging_face.h"
#include "cleave/train/save/image_files.h"
#include "cleave/train/save/tokenizer_files.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGeneration = kGenerationFile.data();
constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kTokenizerNames = "tokenizer_config.json";

/// What belongs to a tokenizer.json or tokenizer.model, and says how to generate.
constexpr const char* kCompanions[] = {
    kTokenizerNames, "special_tokens_map.json", "added_tokens.json",  "vocab.json",
    "merges.txt",    "chat_template.jinja",     "chat_template.json", kGeneration};

/// How images are made ready for a model; Hugging Face's tools look for it beside the weights.
constexpr const char* kImageCompanions[] = {"preprocessor_config.json", "processor_config.json"};

/// The tokens that a config.json names, which older directories have no other place for; "" if it
/// names none.
std::string generation_from(const fs::path& config_file) {
  if (!fs::exists(config_file)) return "";
  const auto config = parse_shallow_or_discard<nlohmann::json>(read_text(config_file));
  nlohmann::ordered_json tokens;
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const bool given = config.is_object() && config.contains(key) && !config[key].is_null();
    if (given) tokens[key] = config[key];
  }
  return tokens.empty() ? "" : tokens.dump(2) + "\n";
}

void copy_if_there(const fs::path& from, const fs::path& to, const char* name) {
  std::error_code same;
  if (!fs::exists(from / name) || fs::equivalent(from / name, to / name, same)) return;
  write_text_atomically(to / name, read_text(from / name));
}

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

std::vector<ModelFile> model_files(const Config& config, const std::string& dtype,
                                   const fs::path& beside) {
  const ModelShape& shape = config.model;
  if (shape.kind->hugging_face == nullptr) return {};
  std::vector<ModelFile> files;
  if (model::has_config_json(shape))
    files.push_back(
        {std::string(checkpoint::kConfigFile),
         with_class_names(model::config_json(shape, dtype), class_names(config, beside))});
  for (const char* name : {kTokenizer, "tokenizer.model"})
    if (fs::exists(beside / name)) files.push_back({name, read_text(beside / name)});
  for (const char* name : kCompanions)
    if (fs::exists(beside / name)) files.push_back({name, read_text(beside / name)});
  if (shape.kind->reads_images) {
    for (const char* name : kImageCompanions)
      if (fs::exists(beside / name)) files.push_back({name, read_text(beside / name)});
  }
  const auto has = [&](const char* name) {
    return std::ranges::find(files, name, &ModelFile::name) != files.end();
  };
  const bool prepared = has(kImageCompanions[0]) || has(kImageCompanions[1]);
  const std::string preparation = prepared ? "" : image_preparation_file(config);
  if (!preparation.empty()) files.push_back({kImageCompanions[0], preparation});
  const bool unnamed = has(kTokenizer) && !has(kTokenizerNames);
  TokenizerFiles made;
  if (has(kTokenizer) && (unnamed || !has(kGeneration)))
    made = tokenizer_files(config, beside / kTokenizer);
  if (!has(kGeneration)) {
    const std::string given = generation_from(beside / checkpoint::kConfigFile);
    const std::string& tokens = given.empty() ? made.generation_config : given;
    files.push_back(
        {kGeneration, tokens.empty() ? "{\n  \"_from_model_config\": true\n}\n" : tokens});
  }
  if (unnamed) files.push_back({kTokenizerNames, made.tokenizer_config});
  return files;
}

void copy_companions(const fs::path& from, const fs::path& to) {
  for (const char* name : kCompanions) copy_if_there(from, to, name);
  if (fs::exists(from / kGeneration)) return;
  const std::string tokens = generation_from(from / checkpoint::kConfigFile);
  if (!tokens.empty()) write_text_atomically(to / kGeneration, tokens);
}

void copy_image_companions(const fs::path& from, const fs::path& to) {
  for (const char* name : kImageCompanions) copy_if_there(from, to, name);
}

}  // namespace cleave::train
