#include "cleave/model/presets.h"

#include <limits>

#include "support/errors.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using testing::user_error;

// Counted as published: biases and a position table in GPT-2, neither in Llama.
std::int64_t parameters(const ModelShape& s) {
  const std::int64_t kv = s.kv_heads * s.head_size();
  const std::int64_t table = s.vocab * s.hidden;
  if (s.kind == &model::gpt) {
    const std::int64_t attention = 4 * s.hidden * s.hidden + 4 * s.hidden;
    const std::int64_t mlp = 2 * s.hidden * s.ffn + s.ffn + s.hidden;
    return table + s.context * s.hidden + s.layers * (attention + mlp + 4 * s.hidden) +
           2 * s.hidden;
  }
  const std::int64_t attention = 2 * s.hidden * s.hidden + 2 * s.hidden * kv;
  const std::int64_t mlp = 3 * s.hidden * s.ffn;
  return (s.tie_embeddings ? 1 : 2) * table + s.layers * (attention + mlp + 2 * s.hidden) +
         s.hidden;
}

TEST(Presets, HaveTheParametersOfThePublishedModels) {
  EXPECT_EQ(parameters(model::find_preset("gpt2-124m").shape), 124'439'808);
  EXPECT_EQ(parameters(model::find_preset("gpt2-350m").shape), 354'823'168);
  EXPECT_EQ(parameters(model::find_preset("llama-160m").shape), 162'417'408);
  EXPECT_EQ(parameters(model::find_preset("llama-1b").shape), 1'100'048'384);
  EXPECT_EQ(parameters(model::find_preset("gpt2-1.5b").shape), 1'557'611'200);
  EXPECT_EQ(parameters(model::find_preset("llama-7b").shape), 6'738'415'616);
  EXPECT_EQ(parameters(model::find_preset("llama-70b").shape), 68'976'648'192);
  EXPECT_EQ(parameters(model::find_preset("llama3-8b").shape), 8'030'261'248);
  EXPECT_EQ(parameters(model::find_preset("llama3-405b").shape), 405'853'388'800);
}

TEST(Presets, AreAllBuildable) {
  for (const model::Preset& preset : model::presets())
    EXPECT_NO_THROW(check(preset.shape)) << preset.name;
}

TEST(Presets, ListTheKnownNamesWhenAskedForAnother) {
  EXPECT_EQ(user_error([] { model::find_preset("gpt3"); }),
            "there is no model preset \"gpt3\"; known are gpt2-124m, gpt2-350m, gpt2-1.5b, "
            "gpt3-22b, gpt3-175b, gpt3-530b, gpt3-1t, gpt-tiny, llama-160m, llama-1b, llama-7b, "
            "llama-13b, llama-33b, llama-65b, llama-70b, llama3-8b, llama3-70b, llama3-405b, "
            "llama-tiny, vit-s-16, vit-b-16, vit-l-16, vit-h-14, vit-tiny, cnn-fashion, unet-tiny, "
            "llava-1.5-7b, smolvlm-256m, vlm-tiny, deepstack-tiny, clip-vit-b-32, clip-tiny, "
            "siglip-b-16, siglip-tiny");
}

TEST(ModelShape, DefaultsTheFeedForwardWidthByFamily) {
  EXPECT_EQ(model::gpt.default_ffn(768), 3072);
  EXPECT_EQ(model::llama.default_ffn(4096), 10944);  // ⌈10922.67⌉ up to a multiple of 64
  EXPECT_EQ(model::llama.default_ffn(96), 256);      // exact already
}

TEST(ModelShape, SaysWhichHeadsWouldDivideHidden) {
  ModelShape shape = model::find_preset("gpt-tiny").shape;
  shape.heads = shape.kv_heads = 5;
  EXPECT_EQ(user_error([&] { check(shape); }),
            "model.hidden 64 is not divisible by model.heads 5; set model.heads to a divisor such "
            "as 4");
}

TEST(ModelShape, RefusesKeysThatItsFamilyDoesNotRead) {
  const auto refused = [](const char* preset, const model::Family* kind, auto change) {
    ModelShape shape = model::find_preset(preset).shape;
    if (kind != nullptr) shape.kind = kind;
    EXPECT_NO_THROW(check(shape)) << preset;
    change(shape);
    return user_error([&] { check(shape); });
  };
  const auto sentence = [](const std::string& key, const std::string& kind) {
    return "model." + key + " is set, and a " + kind +
           " does not read it; leave it out, or take a model.kind that does";
  };
  const std::string kNotRefused = "(no UserError was thrown)";
  const auto bias = [](ModelShape& s) { s.attention_bias = true; };
  EXPECT_EQ(refused("llama-tiny", nullptr, bias), kNotRefused);
  for (const model::Family* kind : {&model::phi3, &model::qwen2})
    EXPECT_EQ(refused("llama-tiny", kind, bias),
              sentence("attention_bias", std::string(kind->name)));
  EXPECT_EQ(refused("vlm-tiny", nullptr, bias), sentence("attention_bias", "vlm"));
  for (const char* kind : {"gpt", "vit", "clip", "siglip"})
    EXPECT_EQ(refused((std::string(kind) + "-tiny").c_str(), nullptr,
                      [](ModelShape& s) {
                        s.heads = s.kv_heads = 3;
                        s.head_dim = 8;
                      }),
              sentence("head_dim", kind));
  EXPECT_EQ(refused("gpt-tiny", nullptr, [](ModelShape& s) { s.rotary_dim = 4; }),
            sentence("rotary_dim", "gpt"));
  EXPECT_EQ(refused("gpt-tiny", nullptr, [](ModelShape& s) { s.attention_scale = 0.5; }),
            sentence("attention_scale", "gpt"));
  EXPECT_EQ(refused("llama-tiny", nullptr, [](ModelShape& s) { s.local_rope_theta = 20000; }),
            sentence("local_rope_theta", "llama"));
  EXPECT_EQ(
      refused("llama-tiny", &model::gemma3, [](ModelShape& s) { s.local_rope_theta = 20000; }),
      kNotRefused);
}

TEST(ModelShape, RefusesWhatNoModelCanHave) {
  const auto refused = [](auto change) {
    ModelShape shape = model::find_preset("llama-tiny").shape;
    change(shape);
    return user_error([&] { check(shape); });
  };
  EXPECT_EQ(refused([](ModelShape& s) { s.kv_heads = 3; }),
            "model.heads 4 is not divisible by model.kv_heads 3; set model.kv_heads to a divisor "
            "such as 2");
  EXPECT_EQ(refused([](ModelShape& s) { s.kv_heads = 8; }),
            "model.heads 4 is not divisible by model.kv_heads 8; set model.kv_heads to a divisor "
            "such as 4");
  EXPECT_EQ(refused([](ModelShape& s) { s.layers = 0; }),
            "model.layers is 0; it must be at least 1 and below 2^31");
  EXPECT_EQ(refused([](ModelShape& s) { s.layers = 20000000; }),
            "model.layers is 20000000; at most 10000 can be planned for");
  EXPECT_EQ(refused([](ModelShape& s) { s.hidden = s.ffn = 2000000000; }),
            "the model has about 9.6e+19 parameters, more than the 1e15 that can be planned for; "
            "make model.hidden, ffn, vocab or layers smaller");
  EXPECT_EQ(refused([](ModelShape& s) { s.heads = s.kv_heads = 64; }),
            "a head of 1 (model.hidden / model.heads) is odd, but rotary positions turn pairs; "
            "change model.heads");
  EXPECT_EQ(refused([](ModelShape& s) { s.kind = &model::gpt; }),
            "model.kv_heads 2 differs from model.heads 4, but gpt has no grouped heads; leave "
            "model.kv_heads out or use kind = \"llama\"");
  EXPECT_EQ(refused([](ModelShape& s) { s.norm_eps = 0; }),
            "model.norm_eps is 0; it must lie between 0 and 1, for example 1e-5");
}

TEST(ModelShape, RefusesSizesThatCannotBePlannedFor) {
  const auto refused = [](const char* preset, auto change) {
    ModelShape shape = model::find_preset(preset).shape;
    change(shape);
    return user_error([&] { check(shape); });
  };
  for (const char* preset : {"vlm-tiny", "clip-tiny", "siglip-tiny"}) {
    EXPECT_EQ(refused(preset, [](ModelShape& s) { s.vision.layers = 1'000'000'000; }),
              "model.vision.layers is 1000000000; at most 10000 can be planned for");
    EXPECT_EQ(refused(preset, [](ModelShape& s) { s.vision.hidden = std::int64_t{1} << 40; }),
              "model.vision.hidden is 1099511627776; it must be at least 1 and below 2^31");
    EXPECT_TRUE(refused(preset, [](ModelShape& s) { s.vision.hidden = s.vision.ffn = 1 << 30; })
                    .starts_with("the model has about "))
        << preset;
  }
  EXPECT_EQ(refused("clip-tiny", [](ModelShape& s) { s.features = std::int64_t{1} << 40; }),
            "model.features is 1099511627776; it must be below 2^31, or left out");
  EXPECT_EQ(refused("vlm-tiny", [](ModelShape& s) { s.shuffle = -2; }),
            "model.projector.shuffle is -2, and an image has 4 patches along a side; make it a "
            "divisor of them, or 0");
  EXPECT_EQ(
      refused("llama-tiny", [](ModelShape& s) { s.head_dim = 2'000'000'000; }),
      "model.heads 4 of model.head_dim 2000000000 are 8000000000 wide; it must be below 2^31");
  EXPECT_EQ(refused("unet-tiny", [](ModelShape& s) { s.hidden = 1 << 19; }),
            "model.hidden 524288 doubles at each of 2 levels, to more than the 1048576 channels "
            "that can be planned for; make it or model.layers smaller");
}

TEST(ModelShape, RefusesRotationsThatCannotBeComputed) {
  const auto refused = [](auto change) {
    ModelShape shape = model::find_preset("llama-tiny").shape;
    shape.kind = &model::gemma3;
    shape.rope_scaling = {.kind = RopeScaling::Kind::Yarn, .factor = 2, .original_context = 32};
    EXPECT_NO_THROW(check(shape));
    change(shape);
    return user_error([&] { check(shape); });
  };
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refused([](ModelShape& s) { s.rope_theta = 1e39; }),
            "model.rope_theta is 1e+39; it must be above 1 and at most 1e30, for example 10000");
  EXPECT_EQ(refused([](ModelShape& s) { s.local_rope_theta = 0; }),
            "model.local_rope_theta is 0; it must be above 1 and at most 1e30, for example 10000");
  EXPECT_EQ(refused([](ModelShape& s) { s.rope_scaling.factor = kInfinite; }),
            "model.rope_scaling has the factor inf; it must be 1 or more, and at most 1e30");
  EXPECT_EQ(refused([](ModelShape& s) { s.rope_scaling.original_context = kInfinite; }),
            "model.rope_scaling has the original_context inf; it must be the context before the "
            "scaling");
  EXPECT_EQ(refused([](ModelShape& s) { s.rope_scaling.high_freq_factor = kNothing; }),
            "model.rope_scaling has the high_freq_factor nan; it must be above the "
            "low_freq_factor 1");
  EXPECT_EQ(refused([](ModelShape& s) { s.rope_scaling.beta_fast = -1; }),
            "model.rope_scaling has the beta_fast -1; it must be above 0 and at most 1e30");
  EXPECT_EQ(refused([](ModelShape& s) { s.rope_scaling.beta_slow = 0; }),
            "model.rope_scaling has the beta_slow 0; it must be above 0 and at most 1e30");
  EXPECT_EQ(refused([](ModelShape& s) { s.rope_scaling.attention_factor = kNothing; }),
            "model.rope_scaling has the attention_factor nan; it must be above 0 and at most 1e30");
  EXPECT_EQ(refused([](ModelShape& s) { s.attention_scale = kInfinite; }),
            "model.attention_scale is inf; it must lie between 0 and 1e30");
}

}  // namespace
}  // namespace cleave
