#include "cleave/checkpoint/weight_files.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/shallow_json.h"

namespace cleave::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Tables that older versions of Hugging Face's tools saved beside the weights; and a head that is
/// also the embedding, which they may save twice.
constexpr std::string_view kNoWeights[] = {".attn.bias", ".attn.masked_bias",
                                           ".rotary_emb.inv_freq", ".embeddings.position_ids"};
constexpr std::string_view kHead = "lm_head.weight";
/// The embeddings that a head may be.
constexpr std::string_view kTokenTables[] = {"embed_tokens.weight", "wte.weight"};

/// How versions of these tools have begun the names of the same tensors.
struct Spelling {
  std::string_view ours, theirs;
};
constexpr Spelling kSpellings[] = {
    {"language_model.model.", "model.language_model."},
    {"language_model.lm_head.", "lm_head."},
    {"vision_tower.vision_model.", "vision_tower."},
    {"vision_tower.vision_model.", "model.vision_tower."},
    {"vision_tower.vision_model.", "model.vision_tower.vision_model."},
    {"multi_modal_projector.", "model.multi_modal_projector."},
};

bool is_pickle(const fs::path& file) {
  for (const char* extension : {".bin", ".pt", ".pth", ".ckpt"})
    if (file.extension() == extension) return true;
  return false;
}

[[noreturn]] void no_weights_in(const fs::path& directory) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (!is_pickle(entry.path())) continue;
    throw UserError(detail::concat(
        directory.string(), " has its weights in ", entry.path().filename().string(),
        ", a pickle, which can run any code and is never opened; save the model as safetensors"));
  }
  throw UserError(detail::concat("there is no ", kModelFile, " and no ", kIndexFile, " in ",
                                 directory.string(), "; give a Hugging Face directory"));
}

/// Which shard has which tensor.
std::map<std::string, std::string> read_index(const fs::path& file) {
  std::map<std::string, std::string> shards;
  bool sound = true;
  try {
    const json root = parse_shallow<json>(read_text(file));
    for (const auto& [tensor, shard] : root.at("weight_map").items())
      shards[tensor] = shard.get<std::string>();
  } catch (const UserError&) {
    throw;
  } catch (const std::exception&) {
    sound = false;
  }
  require(sound && !shards.empty(), file.string(),
          " is no index of shards: it has no \"weight_map\" from tensors to files");
  for (const auto& [tensor, shard] : shards) {
    require(shard.find('/') == std::string::npos && shard.ends_with(".safetensors"), file.string(),
            " says that tensor \"", tensor, "\" is in \"", shard,
            "\", which is no .safetensors file beside it");
  }
  return shards;
}

/// Whether two tensors have the same type, shape and bytes.
bool same_tensor(const SafetensorsFile& file, const TensorEntry& tensor,
                 const SafetensorsFile& other, const TensorEntry& others) {
  if (tensor.type != others.type || tensor.shape != others.shape) return false;
  std::vector<std::byte> ours(1 << 20), theirs(ours.size());
  for (std::int64_t done = 0; done < tensor.bytes(); done += std::ssize(ours)) {
    const auto count =
        static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(ours), tensor.bytes() - done));
    file.read_bytes(tensor.offset + done, std::span(ours).first(count));
    other.read_bytes(others.offset + done, std::span(theirs).first(count));
    if (!std::ranges::equal(std::span(ours).first(count), std::span(theirs).first(count)))
      return false;
  }
  return true;
}

}  // namespace

bool is_hugging_face(const fs::path& directory) {
  std::error_code error;
  return fs::exists(directory / kConfigFile, error) && !error;
}

WeightFiles::WeightFiles(const fs::path& directory) : path_(directory) {
  if (fs::exists(directory / kModelFile)) {
    files_.reserve(1);
    add_file(directory / kModelFile);
    return;
  }
  if (!fs::exists(directory / kIndexFile)) no_weights_in(directory);
  const std::map<std::string, std::string> index = read_index(directory / kIndexFile);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : index) shards.insert(shard);
  files_.reserve(shards.size());
  for (const std::string& shard : shards) {
    require(fs::exists(directory / shard), (directory / kIndexFile).string(), " names ", shard,
            ", which is not there; fetch it, or use another directory");
    add_file(directory / shard);
  }
  check_index(index);
}

void WeightFiles::add_file(const fs::path& path) {
  const SafetensorsFile& file = files_.emplace_back(path);
  const std::vector<TensorEntry>& tensors = file.header().tensors;
  header_.tensors.insert(header_.tensors.end(), tensors.begin(), tensors.end());
  header_.file_bytes += file.header().file_bytes;
  for (const TensorEntry& tensor : tensors) {
    const bool first = tensors_.emplace(tensor.name, Place{files_.size() - 1, &tensor}).second;
    require(first, path.string(), " has tensor \"", tensor.name, "\", which another shard has too");
  }
}

void WeightFiles::check_index(const std::map<std::string, std::string>& index) const {
  for (const auto& [name, shard] : index) {
    const auto found = tensors_.find(name);
    require(found != tensors_.end() && files_[found->second.file].path().filename() == shard,
            (path_ / kIndexFile).string(), " says that tensor \"", name, "\" is in ", shard,
            ", which does not have it");
  }
}

const WeightFiles::Place* WeightFiles::find(std::string_view parameter) const {
  auto found = tensors_.find(parameter);
  if (found == tensors_.end()) found = tensors_.find(parameter.substr(parameter.find('.') + 1));
  for (const auto& [ours, theirs] : kSpellings) {
    if (found != tensors_.end()) break;
    if (parameter.starts_with(ours))
      found = tensors_.find(std::string(theirs).append(parameter.substr(ours.size())));
  }
  return found == tensors_.end() ? nullptr : &found->second;
}

void WeightFiles::expect(const std::vector<Parameter>& parameters) const {
  std::set<const TensorEntry*> wanted;
  for (const Parameter& parameter : parameters) {
    const Place* place = find(parameter.name);
    require(place != nullptr, files_.front().path().string(), " has no tensor \"", parameter.name,
            "\"; it was saved from a model of another architecture");
    require(same_rows(place->tensor->shape, parameter.shape), files_[place->file].path().string(),
            " has tensor \"", place->tensor->name, "\" of shape ", to_string(place->tensor->shape),
            ", but this model needs ", to_string(parameter.shape),
            "; it was saved from a model of another architecture");
    require(is_real(place->tensor->type), files_[place->file].path().string(), " has tensor \"",
            place->tensor->name,
            "\" of whole numbers, but it must be F32, BF16 or F16; save the "
            "model in one of these");
    wanted.insert(place->tensor);
  }
  for (const auto& [name, place] : tensors_) {
    const bool table = std::ranges::any_of(kNoWeights, [&](std::string_view ending) {
      return std::string_view(name).ends_with(ending);
    });
    if (wanted.contains(place.tensor) || table) continue;
    require(name == kHead, files_[place.file].path().string(), " has tensor \"", name,
            "\", which this model has not; it was saved from a model of another architecture");
    expect_tied(place, wanted);
  }
}

void WeightFiles::expect_tied(const Place& head, const std::set<const TensorEntry*>& wanted) const {
  for (const auto& [name, place] : tensors_) {
    const bool table = std::ranges::any_of(kTokenTables, [&](std::string_view ending) {
      return std::string_view(name).ends_with(ending);
    });
    if (!table || !wanted.contains(place.tensor)) continue;
    require(same_tensor(files_[head.file], *head.tensor, files_[place.file], *place.tensor),
            files_[head.file].path().string(), " has tensor \"", kHead, "\", which differs from \"",
            name,
            "\", but config.json says that they are one; set \"tie_word_embeddings\" to false "
            "there if the head is one of its own");
    return;
  }
}

void WeightFiles::read_weight(std::string_view parameter, std::int64_t first,
                              std::span<float> elements) const {
  const Place* place = find(parameter);
  CLEAVE_CHECK(place != nullptr, parameter, " is not in ", path_.string());
  files_[place->file].read(*place->tensor, first, elements);
}

}  // namespace cleave::checkpoint
