// The files of a Hugging Face directory beside its config.json: tensors as older tools saved them,
// and what an export takes over from the directory that it reads.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/errors.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/base/file.h"
#include "cleave/checkpoint/adapter.h"
#include "cleave/checkpoint/weight_files.h"
#include "cleave/train/save/export.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using testing::user_error;

/// A directory with one tensor after another, all of ones but the last, which begins with `last`.
class TensorDirectory {
 public:
  explicit TensorDirectory(std::vector<checkpoint::TensorEntry> tensors, float last = 1) {
    const checkpoint::SafetensorsHeader header = checkpoint::lay_out(std::move(tensors));
    std::string bytes = header.text;
    const auto count = (header.file_bytes - std::ssize(header.text)) / 4;
    std::vector<float> values(static_cast<std::size_t>(count), 1.0f);
    values[static_cast<std::size_t>((header.tensors.back().offset - std::ssize(header.text)) / 4)] =
        last;
    bytes.append(reinterpret_cast<const char*>(values.data()), 4 * values.size());
    dir_.write("model.safetensors", bytes);
  }

  /// "" if they are taken.
  std::string refused(const std::vector<checkpoint::Parameter>& wanted) const {
    const checkpoint::WeightFiles files(dir_.path());
    bool taken = false;
    std::string text = user_error([&] {
      files.expect(wanted);
      taken = true;
    });
    if (taken) return "";
    const std::string name = dir_.path();
    if (const std::size_t at = text.find(name); at != std::string::npos)
      text.replace(at, name.size(), "DIR");
    return text;
  }

 private:
  testing::TemporaryDirectory dir_;
};

// As in openai/clip-vit-base-patch32 and in old GPT-2s.
TEST(HuggingFaceTensors, OfPositionsAndMasksMayBeWholeNumbers) {
  using checkpoint::StoredType;
  const std::vector<checkpoint::TensorEntry> tensors = {
      {.name = "text_model.embeddings.position_ids", .type = StoredType::I64, .shape = {1, 4}},
      {.name = "h.0.attn.bias", .type = StoredType::U8, .shape = {1, 1, 2, 2}},
      {.name = "w", .shape = {2}}};
  EXPECT_EQ(TensorDirectory(tensors).refused({{"w", {2}}}), "");
  EXPECT_EQ(
      TensorDirectory({{.name = "w", .type = StoredType::I64, .shape = {2}}}).refused({{"w", {2}}}),
      "DIR/model.safetensors has tensor \"w\" of whole numbers, but it must be F32, BF16 or "
      "F16; save the model in one of these");
}

TEST(HuggingFaceTensors, OfATiedHeadAreThoseOfTheEmbedding) {
  const std::vector<checkpoint::TensorEntry> tensors = {
      {.name = "model.embed_tokens.weight", .shape = {3, 2}},
      {.name = "lm_head.weight", .shape = {3, 2}}};
  const std::vector<checkpoint::Parameter> tied = {{"model.embed_tokens.weight", {3, 2}}};
  EXPECT_EQ(TensorDirectory(tensors).refused(tied), "");
  EXPECT_EQ(TensorDirectory(tensors, 2).refused(tied),
            "DIR/model.safetensors has tensor \"lm_head.weight\", which differs from "
            "\"model.embed_tokens.weight\", but config.json says that they are one; set "
            "\"tie_word_embeddings\" to false there if the head is one of its own");
}

/// What export_model writes beside the weights of a copy of a golden directory with these files.
fs::path exported_with(const testing::TemporaryDirectory& dir, const std::string& golden,
                       const std::string& name, const std::string& text) {
  fs::copy(testing::source_path("tests/golden/" + golden), dir.path() / "in",
           fs::copy_options::recursive);
  if (!name.empty()) std::ofstream(dir.path() / "in" / name) << text;
  export_model(dir.path() / "in", dir.path() / "out", {});
  return dir.path() / "out";
}

TEST(HuggingFaceFiles, OfAnExportHaveTheTokensThatOnlyConfigJsonNames) {
  const testing::TemporaryDirectory dir;
  const fs::path out = exported_with(dir, "hugging_face/llama2", "", "");
  EXPECT_EQ(read_text(out / "generation_config.json"),
            "{\n  \"bos_token_id\": 1,\n  \"eos_token_id\": 2\n}\n");
}

TEST(HuggingFaceFiles, OfAnExportSayHowImagesAreMadeReady) {
  const testing::TemporaryDirectory dir;
  const std::string text = "{\"size\": {\"height\": 8, \"width\": 8}}";
  const fs::path out =
      exported_with(dir, "hugging_face_images/vit", "preprocessor_config.json", text);
  EXPECT_EQ(read_text(out / "preprocessor_config.json"), text);
}

/// A copy of the adapters that PEFT saved, with `from` in adapter_config.json replaced.
fs::path changed_adapter(const testing::TemporaryDirectory& dir, const std::string& from,
                         const std::string& to) {
  fs::copy(testing::source_path("tests/golden/peft/llama"), dir.path() / "adapter");
  std::string text = read_text(dir.path() / "adapter" / "adapter_config.json");
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  std::ofstream(dir.path() / "adapter" / "adapter_config.json") << text;
  return dir.path() / "adapter";
}

TEST(PeftDirectory, NamesItsModulesByTensorsWhereTheConfigHasAPattern) {
  const testing::TemporaryDirectory dir;
  const fs::path adapter =
      changed_adapter(dir, "\"target_modules\": [", "\"target_modules\": \".*_proj\", \"old\": [");
  const std::vector<std::string> targets = checkpoint::read_adapter_config(adapter).targets;
  EXPECT_EQ(targets.size(), 10);  // five in each of two layers
  EXPECT_NE(std::ranges::find(targets, "model.layers.1.self_attn.v_proj"), targets.end());
}

TEST(PeftDirectory, NamesItsModulesByTensorsWhereLayersAreChosen) {
  const testing::TemporaryDirectory dir;
  const fs::path adapter =
      changed_adapter(dir, "\"layers_to_transform\": null", "\"layers_to_transform\": [0, 1]");
  EXPECT_EQ(checkpoint::read_adapter_config(adapter).targets.size(), 10);
}

TEST(PeftDirectory, IsRefusedWhereItsWeightsAreNotThoseOfTheModel) {
  const testing::TemporaryDirectory dir;
  const fs::path adapter =
      changed_adapter(dir, "\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"");
  EXPECT_EQ(user_error([&] { checkpoint::read_adapter_config(adapter); }),
            (adapter / "adapter_config.json").string() +
                " has \"init_lora_weights\": \"pissa\", which cleave does not do");
}

TEST(PeftDirectory, IsNeverOpenedAsAPickle) {
  const testing::TemporaryDirectory dir;
  const fs::path adapter = changed_adapter(dir, "LORA", "LORA");
  fs::rename(adapter / "adapter_model.safetensors", adapter / "adapter_model.bin");
  EXPECT_EQ(user_error([&] { checkpoint::AdapterReader reader(adapter); }),
            adapter.string() +
                " has its adapters in adapter_model.bin, a pickle, which can run any code and is "
                "never opened; save them as safetensors");
}

}  // namespace
}  // namespace cleave::train
