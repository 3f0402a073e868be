// Checkpoints of real runs that were damaged.

#include <filesystem>
#include <fstream>

#include "app/saved_steps.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Answer;
using testing::checkpoint_of;
using testing::flip_bit;
using testing::TinyRun;

struct Damage {
  const char* what;
  void (*apply)(const std::string& checkpoint);
  std::string says;  // behind the checkpoint's path
  bool spares_weights = false;
};

/// Replaces `from` by `to` of the same length in the header of the model's file.
void forge_header(const std::string& checkpoint, const std::string& from, const std::string& to) {
  const std::string path = checkpoint + "/model.safetensors";
  const std::string bytes = testing::read_text(path);
  const std::size_t at = bytes.find(from);
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(from.size(), to.size());
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file << to;
}

const std::vector<Damage>& damages() {
  static const std::vector<Damage> all = {
      {"a flipped bit of a weight",
       [](const std::string& c) {
         flip_bit(c + "/model.safetensors",
                  static_cast<std::int64_t>(fs::file_size(c + "/model.safetensors")) - 3);
       },
       "/model.safetensors has tensor \"transformer.wte.weight\" with a wrong checksum"},
      {"a flipped bit of the state", [](const std::string& c) { flip_bit(c + "/state.json", 30); },
       "/state.json has a wrong checksum"},
      {"a missing piece", [](const std::string& c) { fs::remove(c + "/optimizer.safetensors"); },
       "/optimizer.safetensors is missing", true},
      {"a flipped bit of a moment",
       [](const std::string& c) {
         flip_bit(c + "/optimizer.safetensors",
                  static_cast<std::int64_t>(fs::file_size(c + "/optimizer.safetensors")) - 3);
       },
       "/optimizer.safetensors has tensor \"transformer.wte.weight.v\" with a wrong checksum",
       true},
      {"a missing manifest", [](const std::string& c) { fs::remove(c + "/manifest.json"); },
       "/manifest.json: No such file or directory"},
      {"a truncated file",
       [](const std::string& c) { fs::resize_file(c + "/model.safetensors", 9000); },
       "/model.safetensors has 9000 bytes instead of "},
      {"tensors that overlap",
       [](const std::string& c) { forge_header(c, "\"shape\":[96],", "\"shape\":[95],"); },
       "/model.safetensors is not a sound safetensors file: tensor "
       "\"transformer.h.0.attn.c_attn.bias\" of shape [95] needs 380 bytes"},
      {"a header that is sound but not ours",
       [](const std::string& c) { forge_header(c, "\"format\":\"pt\"", "\"format\":\"tp\""); },
       "/model.safetensors has a header other than the saved one"},
  };
  return all;
}

TEST(TrainDamage, IsNamedOnEveryWayToReadAndThePreviousCheckpointStaysUsable) {
  for (const Damage& damage : damages()) {
    SCOPED_TRACE(damage.what);
    const TinyRun run({"train.steps=4", "train.checkpoint_every=2"});
    const json whole = run.report();
    const TinyRun other;
    damage.apply(checkpoint_of(run, 4));

    const Answer resumed = run.train({"train.steps=6"}, {"--resume"});
    const Answer begun = other.train({"train.steps=1"}, {"--init-from", run.out()});
    const Answer generated = testing::run_cleave("generate " + run.out());
    for (const Answer* answer : {&resumed, &begun, &generated}) {
      const bool works = damage.spares_weights && answer != &resumed;
      EXPECT_EQ(answer->exit, works ? 0 : 2) << answer->err;
      EXPECT_EQ(answer->err.find(checkpoint_of(run, 4) + damage.says) == std::string::npos, works)
          << answer->err;
    }
    EXPECT_EQ(fs::exists(other.out()), damage.spares_weights);
    EXPECT_TRUE(resumed.err.ends_with("--resume=" + checkpoint_of(run, 2) + "\n")) << resumed.err;
    EXPECT_TRUE(damage.spares_weights ||
                begun.err.ends_with("--init-from=" + checkpoint_of(run, 2) + "\n"))
        << begun.err;
    const json older = run.report({}, {"--resume=" + checkpoint_of(run, 2)});
    EXPECT_EQ(older["weights"], whole["weights"]);
  }
}

}  // namespace
}  // namespace cleave
