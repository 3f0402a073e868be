// What the keys of a config.json say of positions and windows, where several speak of the same.

#include "train/read_keys.h"
#include <gtest/gtest.h>

namespace cleave::train {
namespace {

TEST(HuggingFaceKeys, OfPartialPositionsAreOfPhiAlone) {
  EXPECT_EQ(read_keys("phi3", ", \"head_dim\": 8, \"partial_rotary_factor\": 0.5").rotary_dim, 4);
  EXPECT_EQ(keys_refused("llama", ", \"partial_rotary_factor\": 0.5"),
            "config.json has \"partial_rotary_factor\": 0.5, but all of a head turns in this "
            "family; use another checkpoint");
  EXPECT_EQ(keys_refused("qwen3", R"(, "rope_parameters": {"rope_type": "default",
                                          "rope_theta": 1e4, "partial_rotary_factor": 0.5})"),
            "config.json (rope_parameters) has \"partial_rotary_factor\": 0.5, but all of a head "
            "turns in this family; use another checkpoint");
}

TEST(HuggingFaceKeys, OfYarnMayBeZeroOrNull) {
  const ModelShape shape = read_keys(
      "llama", R"(, "rope_scaling": {"type": "yarn", "factor": 4, "beta_fast": 0, "beta_slow": 0,
                     "truncate": null, "original_max_position_embeddings": 16})");
  EXPECT_EQ(shape.rope_scaling.beta_fast, 32);
  EXPECT_EQ(shape.rope_scaling.beta_slow, 1);
  EXPECT_FALSE(shape.rope_scaling.truncate);
}

TEST(HuggingFaceKeys, OfPartialPositionsTurnPairs) {
  EXPECT_EQ(keys_refused("phi3", ", \"head_dim\": 8, \"partial_rotary_factor\": 0.4"),
            "config.json has \"partial_rotary_factor\": 0.4, but elements of a head turn in pairs; "
            "use another checkpoint");
}

TEST(HuggingFaceKeys, OfPartialPositionsAreAShare) {
  for (const std::string none : {"0", "-1", "1e+300"})
    EXPECT_EQ(keys_refused("phi3", ", \"head_dim\": 8, \"partial_rotary_factor\": " + none),
              "config.json has \"partial_rotary_factor\": " + none +
                  ", but it is the share of a head that turns; use another checkpoint");
}

TEST(HuggingFaceKeys, OfLayersGiveThemHeads) {
  for (const std::string none : {"0", "-4"}) {
    const std::string config =
        R"({"model_type": "phi3", "num_hidden_layers": 1, "hidden_size": 64, "vocab_size": 40,
            "intermediate_size": 20, "max_position_embeddings": 64, "partial_rotary_factor": 0.5,
            "num_attention_heads": )" +
        none + "}";
    EXPECT_EQ(testing::user_error([&] { model::read_config_json(config, "config.json"); }),
              "config.json has \"num_attention_heads\": " + none +
                  ", but a layer has at least one head; use another checkpoint");
  }
}

TEST(HuggingFaceKeys, AreWholeNumbersThatModelsCanHave) {
  for (const std::string large : {"18446744073709551615", "4611686018427387904", "2147483648",
                                  "-2147483648", "1e+300", "0.5"})
    EXPECT_EQ(keys_refused("llama", ", \"pad_token_id\": " + large),
              "config.json has \"pad_token_id\": " + large +
                  ", but a whole number below 2^31 must stand there; correct it or use another "
                  "directory");
  EXPECT_EQ(keys_refused("smollm3", ", \"no_rope_layers\": [1, 1, 1, 4294967296]"),
            "config.json has \"no_rope_layers\": [1,1,1,4294967296], but a list of whole numbers "
            "below 2^31 must stand there; correct it or use another directory");
  EXPECT_EQ(read_keys("llama", ", \"pad_token_id\": 3.0").pad_token, 3);
}

TEST(HuggingFaceKeys, OfHeadsGiveThemElements) {
  for (const std::string none : {"0", "-8"})
    EXPECT_EQ(keys_refused("llama", ", \"head_dim\": " + none),
              "config.json has \"head_dim\": " + none +
                  ", but a head has at least one pair of elements; use another checkpoint");
}

// transformers puts rope_scaling over what rope_parameters says of layers without a window.
TEST(HuggingFaceKeys, OfOldAndNewPositionsMustAgree) {
  const std::string base = R"(, "head_dim": 8, "num_key_value_heads": 4)";
  const std::string old_words = R"(, "rope_scaling": {"rope_type": "linear", "factor": 8.0})";
  const auto new_words = [](const std::string& scaling) {
    return R"(, "rope_parameters": {"full_attention": {"rope_theta": 1e6, )" + scaling + "}}";
  };
  const std::string linear = R"("rope_type": "linear", "factor": 8.0)";

  EXPECT_EQ(keys_refused("gemma3_text", base + old_words + new_words(R"("rope_type": "default")")),
            "config.json has \"rope_scaling\": {\"factor\":8.0,\"rope_type\":\"linear\"}, but "
            "rope_parameters says otherwise of the same layers; use another checkpoint");
  EXPECT_EQ(read_keys("gemma3_text", base + old_words + new_words(linear)),
            read_keys("gemma3_text", base + old_words));
}

TEST(HuggingFaceKeys, OfGemmaGiveWindowsALength) {
  const std::string base = R"(, "head_dim": 8, "num_key_value_heads": 4, "sliding_window": null)";
  EXPECT_EQ(
      keys_refused("gemma3_text", base),
      "config.json has \"sliding_window\": null, but layers of this family have a window; say "
      "how many tokens; use another checkpoint");
  EXPECT_EQ(read_keys("gemma3_text", base + ", \"sliding_window_pattern\": 1").window, 0);
}

}  // namespace
}  // namespace cleave::train
