#include "cleave/checkpoint/adapter.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/shallow_json.h"

namespace cleave::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostRank = 1 << 30;
constexpr std::string_view kPeftPrefix = "base_model.model.";

std::string peft_name(const std::string& name) {
  return std::string(kPeftPrefix) + name;
}

/// What PEFT can do and cleave does not: a key, and the values that ask for nothing.
struct Unused {
  const char* key;
  std::vector<Json> nothing;
};

const std::vector<Unused>& unused() {
  static const std::vector<Unused> keys = {
      {"bias", {"none"}},
      {"modules_to_save", {nullptr, Json::array()}},
      {"rank_pattern", {nullptr, Json::object()}},
      {"alpha_pattern", {nullptr, Json::object()}},
      {"use_dora", {nullptr, false}},
      // Those that are not here change the weights that the adapters belong to.
      {"init_lora_weights", {nullptr, true, false, "gaussian", "eva", "orthogonal"}},
      {"lora_bias", {nullptr, false}},
      {"trainable_token_indices", {nullptr}},
      {"target_parameters", {nullptr, Json::array()}},
      {"layer_replication", {nullptr}},
      {"alora_invocation_tokens", {nullptr}},
      {"use_qalora", {nullptr, false}},
      {"use_bdlora", {nullptr, false}},
      {"arrow_config", {nullptr}},
      {"kasa_config", {nullptr}},
      {"monteclora_config", {nullptr}},
      {"velora_config", {nullptr}},
      {"megatron_config", {nullptr}},
      {"ensure_weight_tying", {nullptr, false}},
  };
  return keys;
}

Json parsed(const fs::path& file) {
  const std::string text = read_text(file);
  Json json = parse_shallow_or_discard<Json>(text);
  require(json.is_object(), file.string(), " is no JSON object; it is no adapter of PEFT");
  return json;
}

/// The number at `key`. Throws UserError if there is none above 0.
double number_at(const Json& json, const char* key, const fs::path& file) {
  const auto found = json.find(key);
  require(found != json.end() && found->is_number() && found->get<double>() > 0, file.string(),
          " has no \"", key, "\" above 0; it is no LoRA adapter of PEFT");
  return found->get<double>();
}

/// A file of tensors. Throws UserError if there is a pickle instead.
fs::path adapter_file(const fs::path& directory) {
  require(fs::exists(directory / kAdapterModelFile) || !fs::exists(directory / "adapter_model.bin"),
          directory.string(),
          " has its adapters in adapter_model.bin, a pickle, which can run any code and is never "
          "opened; save them as safetensors");
  return directory / kAdapterModelFile;
}

/// The modules that have adapters in the file.
std::vector<std::string> adapted_modules(const fs::path& directory) {
  constexpr std::string_view kDown = ".lora_A.weight";
  std::vector<std::string> modules;
  const SafetensorsFile file(adapter_file(directory));
  for (const TensorEntry& tensor : file.header().tensors) {
    std::string_view name = tensor.name;
    if (!name.starts_with(kPeftPrefix) || !name.ends_with(kDown)) continue;
    name.remove_prefix(kPeftPrefix.size());
    name.remove_suffix(kDown.size());
    modules.emplace_back(name);
  }
  require(!modules.empty(), file.path().string(), " has no adapter of LoRA");
  return modules;
}

/// By their names; where a regular expression or a choice of layers says which, what is in the file
/// says it too.
std::vector<std::string> targets_of(const Json& json, const fs::path& directory) {
  const auto given = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && !found->is_null() && !(found->is_array() && found->empty());
  };
  const Json targets = json.value("target_modules", Json());
  const bool chosen = given("layers_to_transform") || given("exclude_modules");
  if (targets == Lora::kAllLinear && !chosen) return {Lora::kAllLinear};
  const bool names =
      targets.is_array() && !targets.empty() &&
      std::ranges::all_of(targets, [](const Json& name) { return name.is_string(); });
  require(names || targets.is_string(), (directory / kAdapterConfigFile).string(),
          " has no \"target_modules\" that is a list of names or a text; it is no LoRA adapter of "
          "PEFT");
  if (names && !chosen) return targets.get<std::vector<std::string>>();
  return adapted_modules(directory);
}

}  // namespace

Lora read_adapter_config(const fs::path& directory) {
  const fs::path file = directory / kAdapterConfigFile;
  require(fs::exists(file), "lora.from ", directory.string(), " has no ", kAdapterConfigFile,
          "; give a directory that PEFT or cleave has saved an adapter to");
  const Json json = parsed(file);
  require(json.value("peft_type", Json()) == "LORA", file.string(), " is of peft_type ",
          json.value("peft_type", Json()).dump(), ", and cleave has LORA only");
  for (const Unused& asked : unused()) {
    const auto found = json.find(asked.key);
    if (found == json.end()) continue;
    require(std::ranges::find(asked.nothing, *found) != asked.nothing.end(), file.string(),
            " has \"", asked.key, "\": ", found->dump(), ", which cleave does not do");
  }
  const Json rslora = json.value("use_rslora", Json(false));
  const double rank = number_at(json, "r", file);
  require(rank < static_cast<double>(kMostRank), file.string(), " has \"r\": ", rank,
          ", and no rank reaches ", kMostRank, "; it is no LoRA adapter of PEFT");
  return {.rank = static_cast<std::int64_t>(rank),
          .alpha = number_at(json, "lora_alpha", file),
          .targets = targets_of(json, directory),
          .rslora = rslora.is_boolean() && rslora.get<bool>()};
}

AdapterReader::AdapterReader(const fs::path& directory) : file_(adapter_file(directory)) {}

void AdapterReader::expect(const std::vector<TensorEntry>& tensors) const {
  std::set<std::string> known;
  for (const TensorEntry& wanted : tensors) {
    const TensorEntry* found = file_.find(peft_name(wanted.name));
    require(found != nullptr, file_.path().string(), " has no tensor \"", peft_name(wanted.name),
            "\"; it was saved for another model, or with other targets than lora.targets");
    require(found->shape == wanted.shape, file_.path().string(), " has tensor \"", found->name,
            "\" of shape ", to_string(found->shape), ", and the model's is ",
            to_string(wanted.shape), "; check lora.rank");
    known.insert(found->name);
  }
  for (const TensorEntry& tensor : file_.header().tensors) {
    require(known.contains(tensor.name), file_.path().string(), " has tensor \"", tensor.name,
            "\", and the model has no such adapter; add it to lora.targets");
  }
}

void AdapterReader::read(const std::string& name, std::int64_t first,
                         std::span<float> elements) const {
  const TensorEntry* tensor = file_.find(peft_name(name));
  CLEAVE_CHECK(tensor != nullptr, name, " was not expected");
  file_.read(*tensor, first, elements);
}

namespace {

Json config_json(const SavedAdapter& adapter) {
  const double alpha = adapter.lora.alpha;
  const bool whole = alpha == std::floor(alpha);  // PEFT declares it so
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", adapter.base.empty() ? Json() : Json(adapter.base)},
          {"r", adapter.lora.rank},
          {"lora_alpha", whole ? Json(std::llround(alpha)) : Json(alpha)},
          {"lora_dropout", 0.0},
          {"use_rslora", adapter.lora.rslora},
          {"use_dora", false},
          {"bias", "none"},
          {"fan_in_fan_out", adapter.transposed},
          {"inference_mode", true},
          {"target_modules", adapter.lora.targets}};
}

}  // namespace

void write_adapter(const fs::path& directory, const SavedAdapter& adapter) {
  fs::create_directories(directory);
  // What a directory is called need not be UTF-8.
  const std::string config =
      config_json(adapter).dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  write_text_atomically(directory / kAdapterConfigFile, config + "\n");
  std::vector<TensorEntry> named = adapter.tensors;
  for (TensorEntry& tensor : named) tensor.name = peft_name(tensor.name);
  const SafetensorsHeader header = lay_out(named);
  File file = File::open_or_create(directory / kAdapterModelFile);
  file.truncate(0);
  file.write(std::as_bytes(std::span(header.text)), 0);
  std::vector<float> elements;
  for (std::size_t i = 0; i < named.size(); ++i) {
    elements.resize(static_cast<std::size_t>(adapter.tensors[i].shape.elements()));
    adapter.read(adapter.tensors[i], elements);
    file.write(std::as_bytes(std::span(elements)), header.tensors[i].offset);
  }
  file.sync();
}

}  // namespace cleave::checkpoint
