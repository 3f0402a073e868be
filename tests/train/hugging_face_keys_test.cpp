// What the keys of a config.json mean, and what happens to those that cleave does not do.

#include <string>
#include <vector>

#include "support/errors.h"
#include "train/read_keys.h"
#include <gtest/gtest.h>

#include "cleave/model/hugging_face.h"
#include "cleave/model/presets.h"
#include "cleave/train/config/config.h"

namespace cleave::train {
namespace {

using testing::user_error;

/// One letter for each layer: w with a window, f without.
std::string windows_of(const ModelShape& shape) {
  std::string letters;
  for (std::int64_t i = 0; i < shape.layers; ++i) letters += shape.has_window(i) ? 'w' : 'f';
  return letters;
}

/// Of what is written for the shape and read again, in config.json and in a run's config.
void expect_kept(const ModelShape& shape) {
  EXPECT_EQ(model::read_config_json(model::config_json(shape, "float32"), "ours"), shape);
  Config config;
  config.model = shape;
  config.train.sequence = shape.context;
  EXPECT_EQ(parse_config(to_toml(config), "again").model, shape);
}

std::string types_of(const std::string& letters) {
  std::string list;
  for (const char letter : letters)
    list += std::string(list.empty() ? "\"" : ", \"") + (letter == 'w' ? "sliding" : "full") +
            "_attention\"";
  return ", \"layer_types\": [" + list + "]";
}

TEST(HuggingFaceKeys, GiveAnyLayersAWindow) {
  for (const std::string letters : {"wffw", "fwff", "wwfw", "ffww", "wfwf", "wwww", "fwwf"}) {
    for (const std::string type : {"qwen2", "qwen3", "gemma3_text"}) {
      const bool gemma = type == "gemma3_text";
      const ModelShape shape = read_keys(
          type, types_of(letters) + ", \"sliding_window\": 7, \"num_key_value_heads\": 4, " +
                    (gemma ? "\"head_dim\": 2" : "\"use_sliding_window\": true"));
      EXPECT_EQ(windows_of(shape), letters) << type;
      EXPECT_EQ(shape.window, 7);
      expect_kept(shape);
    }
  }
}

TEST(HuggingFaceKeys, GiveNoLayerAWindowWhereItIsNull) {
  const ModelShape shape =
      read_keys("qwen2", R"(, "use_sliding_window": true, "sliding_window": null,
                             "max_window_layers": 1)");
  EXPECT_EQ(windows_of(shape), "ffff");
  EXPECT_EQ(keys_refused("qwen2", types_of("wfff")),
            "config.json has \"layer_types\": [\"sliding_attention\",\"full_attention\","
            "\"full_attention\",\"full_attention\"], but the config gives these layers no window; "
            "use another checkpoint");
  EXPECT_EQ(keys_refused("mistral", ", \"sliding_window\": 0"),
            "config.json has \"sliding_window\": 0, but a token sees at least itself; null stands "
            "for all; use another checkpoint");
}

TEST(HuggingFaceKeys, LeavePositionsOutInAnyLayers) {
  const ModelShape shape =
      read_keys("smollm3", R"(, "num_key_value_heads": 4, "no_rope_layers": [0, 1, 1, 0],
                               "use_sliding_window": true, "sliding_window": 5)");
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(shape.has_rope(i), i == 1 || i == 2) << i;
  EXPECT_EQ(windows_of(shape), "wffw");  // where there are no positions, as transformers has it
  expect_kept(shape);
  const ModelShape listed =
      read_keys("smollm3", R"(, "num_key_value_heads": 4, "use_sliding_window": true,
                               "sliding_window": 5)" +
                               types_of("wffw"));
  EXPECT_EQ(listed.nope_every, 4);
  EXPECT_EQ(windows_of(listed), "wffw");
  expect_kept(listed);
}

TEST(HuggingFaceKeys, HaveTheDefaultsOfTheirClass) {
  const auto kv_heads = [](const std::string& type, const std::string& more) {
    return read_keys(type, more).kv_heads;
  };
  EXPECT_EQ(kv_heads("llama", ""), 32);
  EXPECT_EQ(kv_heads("mistral", ""), 8);
  EXPECT_EQ(kv_heads("mistral", ", \"num_key_value_heads\": null"), 32);
  EXPECT_EQ(kv_heads("qwen2", ""), 32);
  EXPECT_EQ(kv_heads("smollm3", ""), 4);
  EXPECT_EQ(kv_heads("gemma3_text", ""), 4);
  EXPECT_EQ(kv_heads("phi3", ""), 32);
}

// A false says nothing elsewhere; transformers lets every token see all others then.
TEST(HuggingFaceKeys, OfAttentionInBothDirectionsAreRefused) {
  for (const std::string type : {"llama", "qwen2", "gemma3_text", "phi3"}) {
    EXPECT_EQ(keys_refused(type, ", \"is_causal\": false"),
              "config.json has \"is_causal\": false, which cleave does not know; take the key out "
              "if the model does not depend on it");
  }
  EXPECT_EQ(read_keys("llama", ", \"is_causal\": true"), read_keys("llama", ""));
}

TEST(HuggingFaceKeys, OfAScaleOfNothingAreRefused) {
  EXPECT_EQ(keys_refused("gemma3_text", ", \"query_pre_attn_scalar\": 0"),
            "config.json has \"query_pre_attn_scalar\": 0, but scores are divided by its root; use "
            "another checkpoint");
}

// As distilgpt2 and the first Llamas have them.
TEST(HuggingFaceKeys, OfOldDirectoriesThatSayNothingAreIgnored) {
  const ModelShape gpt = model::read_config_json(
      R"({"model_type": "gpt2", "_num_labels": 1, "n_ctx": 1024, "n_embd": 768, "n_head": 12,
          "n_layer": 6, "n_positions": 1024, "vocab_size": 50257, "summary_type": "cls_index",
          "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}})",
      "config.json");
  EXPECT_EQ(gpt.layers, 6);
  EXPECT_EQ(read_keys("llama", ", \"max_sequence_length\": 2048").context, 64);
}

// openai/clip-vit-large-patch14 has all its sizes twice, and those of its second tables count.
TEST(HuggingFaceKeys, OfClipMayStandInTablesOfTheFirstVersion) {
  const ModelShape shape = model::read_config_json(
      R"({"model_type": "clip", "projection_dim": 768,
          "text_config": {"hidden_size": 512, "eos_token_id": 2},
          "text_config_dict": {"hidden_size": 768, "intermediate_size": 3072,
                               "num_attention_heads": 12, "num_hidden_layers": 12,
                               "projection_dim": 768},
          "vision_config": {"patch_size": 32},
          "vision_config_dict": {"hidden_size": 1024, "intermediate_size": 4096,
                                 "num_attention_heads": 16, "num_hidden_layers": 24,
                                 "patch_size": 14, "projection_dim": 768}})",
      "config.json");
  EXPECT_EQ(shape.hidden, 768);
  EXPECT_EQ(shape.vision.layers, 24);
  EXPECT_EQ(shape.patch, 14);
  EXPECT_EQ(user_error([] {
              model::read_config_json(R"({"model_type": "clip", "vision_config": {"patch_size": 32},
                                          "text_config": {"eos_token_id": 7}})",
                                      "config.json");
            }),
            "config.json (text_config) has \"eos_token_id\": 7, but cleave takes the features of a "
            "text at its highest token, which is 2 or vocab_size - 1; use another checkpoint");
}

// HuggingFaceTB/SmolVLM-256M-Instruct, but for what says nothing of the model.
TEST(HuggingFaceKeys, OfTheFirstSmolVlmAreThoseOfItsArchitecture) {
  const ModelShape shape = model::read_config_json(
      R"({"architectures": ["Idefics3ForConditionalGeneration"], "image_seq_len": 64,
          "image_token_id": 49190, "model_type": "idefics3", "scale_factor": 4,
          "text_config": {"_flash_attn_2_enabled": true, "architectures": ["VLlama3ForCausalLM"],
                          "head_dim": 64, "hidden_size": 576, "intermediate_size": 1536,
                          "is_llama_config": true, "max_position_embeddings": 8192,
                          "model_type": "llama", "neftune_noise_alpha": 0.0,
                          "num_attention_heads": 9, "num_hidden_layers": 30,
                          "num_key_value_heads": 3, "pad_token_id": 2,
                          "perceiver_config": {"attention_dropout": 0.0},
                          "pixel_shuffle_factor": 4, "qk_layer_norms": false,
                          "rms_norm_eps": 1e-05, "rope_interleaved": false, "rope_theta": 100000,
                          "use_resampler": false, "vocab_size": 49280},
          "tie_word_embeddings": false, "vocab_size": 49280,
          "vision_config": {"hidden_size": 768, "image_size": 512,
                            "max_image_size": {"longest_edge": 512},
                            "model_type": "idefics3_vision", "num_attention_heads": 12,
                            "patch_size": 16, "size": {"longest_edge": 2048},
                            "tie_word_embeddings": false, "use_base_siglip": false}})",
      "config.json");
  EXPECT_EQ(shape.shuffle, 4);
  EXPECT_EQ(shape.layers, 30);
  EXPECT_EQ(shape.pad_token, 2);
  EXPECT_EQ(shape.image_rows(), 64);
  EXPECT_NE(model::config_json(shape, "float32").find("\"model_type\": \"smolvlm\""),
            std::string::npos);
}

// PyTorch's table of tokens leaves the row of padding out of its gradient.
TEST(HuggingFaceKeys, OfPaddingKeepAnEmbeddingStill) {
  const auto pad_of = [](const std::string& type, const std::string& more) {
    const ModelShape shape = model::read_config_json(
        R"({"model_type": ")" + type + R"(", "num_hidden_layers": 1, "hidden_size": 8,
            "num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 8,
            "vocab_size": 40, "max_position_embeddings": 16)" +
            more + "}",
        "config.json");
    const ModelShape again =
        model::read_config_json(model::config_json(shape, "float32"), "config.json");
    EXPECT_EQ(again.pad_token, shape.pad_token) << type << more;
    return shape.pad_token;
  };
  EXPECT_EQ(pad_of("llama", ""), -1);
  EXPECT_EQ(pad_of("llama", R"(, "pad_token_id": 7)"), 7);
  EXPECT_EQ(pad_of("llama", R"(, "pad_token_id": -1)"), 39);
  EXPECT_EQ(pad_of("olmo2", ""), 1);
  EXPECT_EQ(pad_of("olmo2", R"(, "pad_token_id": null)"), -1);
  EXPECT_EQ(pad_of("gemma3_text", R"(, "head_dim": 8)"), 0);
  EXPECT_EQ(pad_of("smollm3", ""), -1);
  EXPECT_EQ(user_error([&] { pad_of("llama", R"(, "pad_token_id": 40)"); }),
            "config.json has \"pad_token_id\": 40, but it must be a token of the vocabulary; use "
            "another checkpoint");
}

TEST(HuggingFaceKeys, OfAnotherTowerThanClipsAreRefused) {
  EXPECT_EQ(user_error([] {
              model::read_config_json(
                  R"({"model_type": "llava", "text_config": {"model_type": "llama"},
                      "vision_config": {"model_type": "siglip_vision_model"}})",
                  "config.json");
            }),
            "config.json (vision_config) has \"model_type\": \"siglip_vision_model\", but cleave "
            "has the tower of CLIP in this family; use another checkpoint");
}

TEST(HuggingFaceKeys, OfTheTokenOfImagesMustAgree) {
  const auto read = [](const std::string& more) {
    return model::read_config_json(R"({"model_type": "llava", "text_config": {"vocab_size": 32064},
                                       "vision_config": {"patch_size": 32})" +
                                       more + "}",
                                   "config.json");
  };
  EXPECT_EQ(read(", \"image_token_id\": 7").image_token, 7);
  EXPECT_EQ(user_error([&] { read(", \"image_token_id\": 7, \"image_token_index\": 8"); }),
            "config.json has \"image_token_id\": 7, but image_token_index is the same token by its "
            "older name; use another checkpoint");
}

TEST(HuggingFaceKeys, OfATiedTextTieALlava) {
  const ModelShape shape = model::read_config_json(
      R"({"model_type": "llava", "text_config": {"tie_word_embeddings": true, "vocab_size": 32064},
          "vision_config": {"patch_size": 32}})",
      "config.json");
  EXPECT_TRUE(shape.tie_embeddings);
}

// Their classes have no key for it, so that they would compute something else.
TEST(HuggingFaceKeys, AreNotWrittenForAModelThatTheyDoNotDescribe) {
  ModelShape llama = model::find_preset("llama-tiny").shape;
  EXPECT_TRUE(model::has_config_json(llama));
  llama.window = 16;
  EXPECT_FALSE(model::has_config_json(llama));
  EXPECT_EQ(user_error([&] { model::config_json(llama, "float32"); }),
            "model.kind \"llama\" of this shape is none that Hugging Face's tools know; it cannot "
            "have a config.json");
  ModelShape qwen = model::find_preset("llama-tiny").shape;
  qwen.kind = &model::qwen3;
  EXPECT_TRUE(model::has_config_json(qwen));
  qwen.mlp_bias = true;
  EXPECT_FALSE(model::has_config_json(qwen));
}

}  // namespace
}  // namespace cleave::train
