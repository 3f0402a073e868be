// Directories of the Hugging Face form that are broken, or lack something; and what is exported.

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "support/errors.h"
#include "support/temporary_directory.h"
#include "train/golden_directory.h"
#include <gtest/gtest.h>

#include "cleave/base/file.h"
#include "cleave/model/hugging_face.h"
#include "cleave/train/config/model_directory.h"
#include "cleave/train/save/export.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using testing::golden_directory;
using testing::reader_of;
using testing::user_error;

/// A copy of a golden directory, to break.
class Broken {
 public:
  explicit Broken(const std::string& name) {
    fs::copy(golden_directory() / name, path(), fs::copy_options::recursive);
  }
  fs::path path() const { return dir_.path() / "model"; }

  void replace(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = read_text(path() / file);
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    std::ofstream(path() / file, std::ios::binary) << text;
  }

  /// What a run that begins with it is told, with the directory called DIR.
  std::string refused() const {
    std::string text = user_error([&] {
      const checkpoint::CheckpointReader reader = reader_of(path());
      const ModelShape shape = config_of(reader).model;
      reader.expect(checkpoint_layout(model::graph_of(shape, {.sequence = 1})).parameters());
    });
    const std::string name = path().string();
    for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name))
      text.replace(at, name.size(), "DIR");
    return text;
  }

 private:
  testing::TemporaryDirectory dir_;
};

TEST(HuggingFaceDirectory, IsRefusedByTheKeyThatCleaveDoesNotDo) {
  struct Case {
    std::string from, to, sentence;
  };
  for (
      const Case& c : std::vector<Case>{
          {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"relu\"",
           "DIR/config.json has \"hidden_act\": \"relu\", but cleave has \"silu\" in this family; "
           "use another checkpoint"},
          {"\"model_type\": \"llama\"", "\"model_type\": \"mamba\"",
           "DIR/config.json has \"model_type\": \"mamba\", which cleave does not know; known are "
           "gpt2, llama, mistral, qwen2, qwen3, olmo2, phi3, smollm3, gemma3_text, vit, llava, "
           "smolvlm, idefics3, clip, siglip"},
          {"\"rope_type\": \"default\"", "\"rope_type\": \"longrope\"",
           "DIR/config.json (rope_parameters) has \"rope_type\": \"longrope\", but cleave has "
           "default, linear, dynamic, llama3 and yarn; use another checkpoint"},
          {"\"mlp_bias\": false", "\"mlp_bias\": false, \"quantization_config\": {\"bits\": 4}",
           "DIR/config.json has \"quantization_config\": {\"bits\":4}, which cleave does not know; "
           "take the key out if the model does not depend on it"},
          {"\"hidden_size\": 16", "\"hidden_size\": \"16\"",
           "DIR/config.json has \"hidden_size\": \"16\", but a whole number below 2^31 must stand "
           "there; correct it or use another directory"},
          {"\"hidden_size\": 16", "\"hidden_width\": 16",
           "DIR/config.json has no \"hidden_size\"; cleave needs it to know the model, so add it "
           "or "
           "use another directory"},
          {"\"vocab_size\": 32", "\"vocab_size\": 33",
           "DIR/model.safetensors has tensor \"lm_head.weight\" of shape [32, 16], but this model "
           "needs [33, 16]; it was saved from a model of another architecture"},
          {"\"architectures\"", "architectures",
           "DIR/config.json is no JSON object; it must be the config.json of a Hugging Face model"},
      }) {
    const Broken broken("llama2");
    broken.replace("config.json", c.from, c.to);
    EXPECT_EQ(broken.refused(), c.sentence);
  }
}

TEST(HuggingFaceDirectory, SaysWhichFileIsMissingOrCutOff) {
  const Broken no_shard("llama3");
  fs::remove(no_shard.path() / "model-00002-of-00004.safetensors");
  EXPECT_EQ(no_shard.refused(),
            "DIR/model.safetensors.index.json names model-00002-of-00004.safetensors, which is not "
            "there; fetch it, or use another directory");

  const Broken cut("llama3");
  const fs::path shard = cut.path() / "model-00001-of-00004.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 4);
  EXPECT_NE(cut.refused().find("DIR/model-00001-of-00004.safetensors is not a sound safetensors "
                               "file: tensor \""),
            std::string::npos)
      << cut.refused();

  const Broken other_type("llama2");
  other_type.replace("model.safetensors", "\"dtype\":\"F32\"", "\"dtype\":\"F64\"");
  EXPECT_NE(other_type.refused().find("has the type \"F64\", cleave reads F32, BF16, F16 and I32"),
            std::string::npos)
      << other_type.refused();

  const Broken pickle("llama2");
  fs::rename(pickle.path() / "model.safetensors", pickle.path() / "pytorch_model.bin");
  EXPECT_EQ(
      pickle.refused(),
      "DIR has its weights in pytorch_model.bin, a pickle, which can run any code and is never "
      "opened; save the model as safetensors");

  const Broken none("llama2");
  fs::remove(none.path() / "model.safetensors");
  EXPECT_EQ(none.refused(),
            "there is no model.safetensors and no model.safetensors.index.json in DIR; give a "
            "Hugging Face directory");
}

TEST(HuggingFaceDirectory, WithoutAConfigIsNoModel) {
  const testing::TemporaryDirectory dir;
  EXPECT_EQ(user_error([&] { shape_in(dir.path()); }),
            "there is no " + dir.path("config.json") +
                "; a Hugging Face directory has a config.json beside its weights");
}

TEST(HuggingFaceDirectory, FixesTheKeysOfTheModel) {
  const std::string directory = golden_directory() / "qwen3";
  const auto with = [&](const std::string& more) {
    return parse_config("[model]\nfrom = \"" + directory + "\"\n" + more, "run.toml");
  };
  const Config config = with("");
  EXPECT_EQ(config.model.kind, &model::qwen3);
  EXPECT_EQ(config.model.rope_theta, 1000000);
  EXPECT_EQ(config.train.sequence, 64);
  EXPECT_EQ(parse_config(to_toml(config), "again"), config);
  EXPECT_EQ(with("hidden = 16").model, config.model);
  EXPECT_EQ(user_error([&] { with("rope_theta = 10000.0"); }),
            "model.rope_theta is 10000.0, but the config.json in " + directory +
                " says 1000000.0; leave the key out");
  EXPECT_EQ(user_error([&] { with("preset = \"llama-tiny\""); }),
            "model.from and model.preset both say what the model is; leave one out");
}

TEST(HuggingFaceExport, RoundsToBf16OnceAndKeepsWhatIsBf16) {
  const testing::TemporaryDirectory dir;
  const checkpoint::WeightFormat bf16{.type = checkpoint::StoredType::BF16};
  export_model(golden_directory() / "qwen3", dir.path() / "once", bf16);
  export_model(dir.path() / "once", dir.path() / "twice", {});
  const checkpoint::CheckpointReader exact = reader_of(golden_directory() / "qwen3");
  const checkpoint::CheckpointReader twice = reader_of(dir.path() / "twice");
  for (const checkpoint::TensorEntry& tensor : twice.model().tensors) {
    std::vector<float> before(tensor.shape.elements()), after(before.size());
    exact.read_weight(tensor.name, 0, before);
    twice.read_weight(tensor.name, 0, after);
    for (std::size_t i = 0; i < before.size(); ++i) {
      // A bf16 has 8 bits of mantissa; nearest means within half of the last.
      ASSERT_LE(std::abs(after[i] - before[i]), std::abs(before[i]) * 0x1p-8f) << tensor.name;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(after[i]) & 0xffff, 0u);
    }
  }
}

TEST(HuggingFaceExport, DoesNotWriteOverADirectory) {
  const testing::TemporaryDirectory dir;
  EXPECT_EQ(user_error([&] { export_model(golden_directory() / "gpt2", dir.path(), {}); }),
            dir.path().string() + " exists already; choose a directory that does not");
}

// As an older transformers saves GPT2Model: without "transformer.", and with tables of ones.
TEST(HuggingFaceDirectory, MayLackTheFirstPartOfNames) {
  const testing::TemporaryDirectory dir;
  const checkpoint::SafetensorsHeader header = checkpoint::lay_out(
      {{.name = "h.0.attn.bias", .shape = {1}}, {.name = "h.0.w", .shape = {2}}});
  const float values[] = {1, 5, 7};
  dir.write("model.safetensors",
            header.text + std::string(reinterpret_cast<const char*>(values), sizeof values));
  const checkpoint::WeightFiles files(dir.path());
  files.expect({{"transformer.h.0.w", {2}}});
  std::vector<float> read(1);
  files.read_weight("transformer.h.0.w", 1, read);
  EXPECT_EQ(read[0], 7);
}

}  // namespace
}  // namespace cleave::train
