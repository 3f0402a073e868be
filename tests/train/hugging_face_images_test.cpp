// Directories of models that read images, as transformers saved them (scripts/hugging_face_golden
// --images): they are read, written and read again. That the arithmetic is theirs is for
// vision_golden_test, vlm_golden_test and contrastive_golden_test, which go by the same names.

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "support/errors.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/checkpoint/reader.h"
#include "cleave/checkpoint/weight_files.h"
#include "cleave/model/hugging_face.h"
#include "cleave/model/presets.h"
#include "cleave/train/config/model_directory.h"
#include "cleave/train/save/export.h"
#include "cleave/train/save/saving.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using testing::user_error;

fs::path images_directory() {
  return testing::source_path("tests/golden/hugging_face_images");
}

/// The tensors of a directory, each with its name and shape in it, and all its elements.
std::vector<std::pair<std::string, std::vector<float>>> tensors_of(const fs::path& directory) {
  const checkpoint::CheckpointReader reader(directory, checkpoint::Load::WeightsOnly);
  const ModelShape shape = config_of(reader).model;
  const auto parameters =
      checkpoint_layout(model::graph_of(shape, {.sequence = shape.context})).parameters();
  reader.expect(parameters);
  std::vector<std::pair<std::string, std::vector<float>>> tensors;
  for (const checkpoint::Parameter& parameter : parameters) {
    std::vector<float> elements(static_cast<std::size_t>(parameter.shape.elements()));
    reader.read_weight(parameter.name, 0, elements);
    tensors.emplace_back(parameter.name, std::move(elements));
  }
  return tensors;
}

class HuggingFaceImages : public ::testing::TestWithParam<std::string> {};

TEST_P(HuggingFaceImages, AreReadAndWrittenAsTheyWere) {
  const fs::path directory = images_directory() / GetParam();
  const testing::TemporaryDirectory dir;
  const fs::path out = dir.path() / "exported";

  export_model(directory, out, {});

  EXPECT_EQ(shape_in(out), shape_in(directory));
  EXPECT_EQ(tensors_of(out), tensors_of(directory));
  // Every tensor has the shape that transformers gave it.
  const checkpoint::WeightFiles theirs(directory), ours(out);
  std::multiset<std::string> their_shapes, our_shapes;
  for (const auto& tensor : theirs.header().tensors) their_shapes.insert(to_string(tensor.shape));
  for (const auto& tensor : ours.header().tensors) our_shapes.insert(to_string(tensor.shape));
  EXPECT_EQ(our_shapes, their_shapes);
}

TEST_P(HuggingFaceImages, WriteAConfigThatSaysTheSame) {
  const ModelShape shape = shape_in(images_directory() / GetParam());
  EXPECT_EQ(model::read_config_json(model::config_json(shape, "float32"), "ours"), shape);
}

INSTANTIATE_TEST_SUITE_P(Families, HuggingFaceImages,
                         ::testing::Values("vit", "llava", "smolvlm", "clip", "siglip"),
                         [](const auto& info) { return info.param; });

TEST(HuggingFaceImage, SizesFollowFromTheConfig) {
  const ModelShape vit = shape_in(images_directory() / "vit");
  EXPECT_EQ(vit.classes, 5);
  EXPECT_EQ(vit.patches(), 4);
  EXPECT_EQ(vit.norm_eps, 1e-12);

  const ModelShape llava = shape_in(images_directory() / "llava");
  EXPECT_EQ(llava.gelu, GeluForm::Quick);
  EXPECT_EQ(llava.image_token, 39);
  EXPECT_TRUE(llava.vision.class_token);
  EXPECT_EQ(llava.kv_heads, 1);

  const ModelShape smolvlm = shape_in(images_directory() / "smolvlm");
  EXPECT_EQ(smolvlm.shuffle, 2);
  EXPECT_EQ(smolvlm.image_rows(), 4);
  EXPECT_FALSE(smolvlm.vision.class_token);

  const ModelShape clip = shape_in(images_directory() / "clip");
  EXPECT_EQ(clip.features, 12);
  EXPECT_EQ(clip.context, 9);
  EXPECT_TRUE(clip.vision.class_token);

  const ModelShape siglip = shape_in(images_directory() / "siglip");
  EXPECT_EQ(siglip.features, 16);
  EXPECT_EQ(siglip.gelu, GeluForm::Tanh);
  EXPECT_FALSE(siglip.vision.class_token);
}

// The config.json of openai/clip-vit-base-patch32 and google/siglip-base-patch16-224, but for what
// says nothing of the model.
TEST(HuggingFaceImage, PublishedPairsAreThePresets) {
  const ModelShape clip = model::read_config_json(
      R"({"model_type": "clip", "projection_dim": 512, "logit_scale_init_value": 2.6592,
          "text_config": {"bos_token_id": 0, "eos_token_id": 2, "dropout": 0.0,
                          "hidden_act": "quick_gelu", "hidden_size": 512,
                          "intermediate_size": 2048, "layer_norm_eps": 1e-05,
                          "max_position_embeddings": 77, "model_type": "clip_text_model",
                          "num_attention_heads": 8, "num_hidden_layers": 12,
                          "projection_dim": 512, "vocab_size": 49408},
          "text_config_dict": null,
          "vision_config": {"dropout": 0.0, "hidden_act": "quick_gelu", "hidden_size": 768,
                            "image_size": 224, "intermediate_size": 3072, "patch_size": 32,
                            "model_type": "clip_vision_model", "num_attention_heads": 12,
                            "num_hidden_layers": 12, "projection_dim": 512}})",
      "config.json");
  EXPECT_EQ(clip, model::find_preset("clip-vit-b-32").shape);
  const ModelShape siglip = model::read_config_json(
      R"({"model_type": "siglip", "initializer_factor": 1.0,
          "text_config": {"hidden_size": 768, "intermediate_size": 3072, "vocab_size": 32000,
                          "model_type": "siglip_text_model", "num_attention_heads": 12},
          "vision_config": {"hidden_size": 768, "intermediate_size": 3072, "patch_size": 16,
                            "model_type": "siglip_vision_model", "num_attention_heads": 12}})",
      "config.json");
  EXPECT_EQ(siglip, model::find_preset("siglip-b-16").shape);
}

TEST(HuggingFaceImage, TowersWithDifferentActivationsAreRefused) {
  EXPECT_EQ(user_error([] {
              model::read_config_json(
                  R"({"model_type": "clip", "vision_config": {"patch_size": 32},
                      "text_config": {"hidden_act": "gelu"}})",
                  "config.json");
            }),
            "config.json (text_config) has \"hidden_act\": \"gelu\", but cleave has one activation "
            "for both "
            "towers; use another checkpoint");
}

// The config.json of llava-1.5-7b leaves most sizes of its language model out.
TEST(HuggingFaceImage, SizesThatLlavaLeavesOutAreLlamas) {
  const ModelShape shape = model::read_config_json(
      R"({"model_type": "llava", "image_token_index": 32000, "projector_hidden_act": "gelu",
          "text_config": {"max_position_embeddings": 4096, "model_type": "llama",
                          "rms_norm_eps": 1e-05, "vocab_size": 32064},
          "vision_config": {"hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
                            "model_type": "clip_vision_model", "num_attention_heads": 16,
                            "num_hidden_layers": 24, "patch_size": 14, "projection_dim": 768,
                            "vocab_size": 32000},
          "vision_feature_layer": -2, "vision_feature_select_strategy": "default"})",
      "config.json");
  EXPECT_EQ(shape, model::find_preset("llava-1.5-7b").shape);
}

TEST(HuggingFaceImage, FeaturesOfAnotherLayerAreRefused) {
  EXPECT_EQ(user_error([] {
              model::read_config_json(
                  R"({"model_type": "llava", "text_config": {"model_type": "llama"},
                      "vision_config": {"patch_size": 32}, "vision_feature_layer": -1})",
                  "config.json");
            }),
            "config.json has \"vision_feature_layer\": -1, but cleave takes the layer before the "
            "last, which is -2; use another checkpoint");
}

}  // namespace
}  // namespace cleave::train
