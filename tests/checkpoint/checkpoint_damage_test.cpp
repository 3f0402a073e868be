#include <fstream>

#include "checkpoint/sample_checkpoint.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/checkpoint/adapter.h"
#include "cleave/checkpoint/manifest.h"

namespace cleave::checkpoint {
namespace {

using cleave::testing::TemporaryDirectory;
using cleave::testing::user_error;

TEST(Checkpoint, NamesWhatIsDamaged) {
  const TemporaryDirectory dir;
  const fs::path at = dir.path() / "step-00000003";
  const auto problem_after = [&](auto damage) {
    fs::remove_all(at);
    save(dir.path(), 3);
    damage();
    const auto problems = verify_checkpoint(at);
    return problems.size() == 1 ? problems[0]
                                : "(" + std::to_string(problems.size()) + " problems)";
  };
  const fs::path model = at / kModelFile;
  const fs::path optimizer = at / kOptimizerFile;
  const CheckpointLayout layout(kParameters);

  const std::int64_t inside = layout.entry(1).offset + 4321;
  EXPECT_EQ(problem_after([&] { flip_bit(model, inside); }),
            model.string() + " has tensor \"h.0.weight\" with a wrong checksum");
  EXPECT_EQ(problem_after([&] { flip_bit(optimizer, fs::file_size(optimizer) - 1); }),
            optimizer.string() + " has tensor \"ln_f.bias.v\" with a wrong checksum");
  EXPECT_EQ(problem_after([&] { flip_bit(model, layout.model().text.find("pt\"")); }),
            model.string() + " has a header other than the saved one");
  EXPECT_EQ(problem_after([&] { flip_bit(at / kStateFile, 30); }),
            (at / kStateFile).string() + " has a wrong checksum");
  EXPECT_EQ(problem_after([&] { flip_bit(at / kManifestFile, 200); }),
            (at / kManifestFile).string() +
                " is damaged or from another version of cleave; use an older checkpoint");
  EXPECT_EQ(problem_after([&] { fs::resize_file(optimizer, 5000); }),
            optimizer.string() + " has 5000 bytes instead of " +
                std::to_string(layout.optimizer().file_bytes) + "; use another checkpoint");
  EXPECT_EQ(problem_after([&] { fs::remove(model); }),
            model.string() + " is missing; use another checkpoint");
  EXPECT_EQ(problem_after([&] { fs::remove(at / kManifestFile); }),
            "cannot read " + (at / kManifestFile).string() + ": No such file or directory");
}

TEST(Checkpoint, NoticesEveryFlippedByteOfTheSmallFiles) {
  const TemporaryDirectory dir;
  save(dir.path(), 3);
  for (std::string_view name : {kStateFile, kManifestFile}) {
    const fs::path file = dir.path() / "latest" / name;
    const auto text = read_text(file);
    for (std::size_t byte = 0; byte < text.size(); ++byte) {
      if (text[byte] == ' ' || text[byte] == '\n') continue;  // blanks between JSON's words
      flip_bit(file, static_cast<std::int64_t>(byte));
      EXPECT_FALSE(verify_checkpoint(dir.path() / "latest").empty()) << name << " " << byte;
      flip_bit(file, static_cast<std::int64_t>(byte));
    }
  }
  expect_content(dir.path() / "latest", 3);
}

TEST(Checkpoint, NoticesDamageToFilesThatOtherToolsReadAndDoesWithoutThem) {
  const TemporaryDirectory dir;
  const CheckpointLayout layout(kParameters);
  prepare_checkpoint(dir.path(), 3, layout);
  write_slices(dir.path(), 3, layout, 0, 1, 1 << 20);
  add_file(dir.path(), 3, "config.json", "{\"hidden_size\": 64}\n");
  commit_checkpoint(dir.path(), layout, state_at(3), 1, 2);
  const fs::path file = dir.path() / "latest" / "config.json";
  expect_content(dir.path() / "latest", 3);

  flip_bit(file, 5);
  EXPECT_EQ(verify_checkpoint(dir.path() / "latest"),
            std::vector<std::string>{file.string() + " has a wrong checksum"});
  fs::remove(file);
  EXPECT_EQ(verify_checkpoint(dir.path() / "latest"),
            std::vector<std::string>{file.string() + " is missing"});
  EXPECT_EQ(CheckpointReader(dir.path() / "latest").state(), state_at(3));
}

TEST(Checkpoint, NoticesAManifestThatListsLessThanThereIs) {
  const TemporaryDirectory directory;
  save(directory.path(), 3);
  const fs::path checkpoint = checkpoint_path(directory.path(), 3);
  const Manifest whole = read_manifest(checkpoint / kManifestFile);

  Manifest fewer = whole;
  fewer.files[0].tensors.pop_back();
  std::ofstream(checkpoint / kManifestFile) << to_json(fewer);
  ASSERT_EQ(verify_checkpoint(checkpoint).size(), 1u);
  EXPECT_EQ(verify_checkpoint(checkpoint)[0],
            (checkpoint / kModelFile).string() + " has tensor \"" +
                whole.files[0].tensors.back().name + "\", of which the manifest has no checksum");

  fewer = whole;
  fewer.files[1].tensors.clear();
  std::ofstream(checkpoint / kManifestFile) << to_json(fewer);
  EXPECT_EQ(verify_checkpoint(checkpoint).size(), whole.files[1].tensors.size());

  for (std::size_t file = 0; file < whole.files.size(); ++file) {
    fewer = whole;
    fewer.files.erase(fewer.files.begin() + static_cast<std::ptrdiff_t>(file));
    std::ofstream(checkpoint / kManifestFile) << to_json(fewer);
    EXPECT_EQ(verify_checkpoint(checkpoint),
              std::vector{(checkpoint / kManifestFile).string() + " does not list " +
                          whole.files[file].file + "; use another checkpoint"});
  }
}

TEST(Checkpoint, RefusesNumbersThatItDoesNotHold) {
  const TemporaryDirectory directory;
  const std::string state = to_json(CheckpointState{.step = 3, .data_position = 3, .seed = 3});
  EXPECT_EQ(read_state(directory.write("state.json", state)).seed, 3);
  for (const std::string key : {"step", "data_position", "seed"}) {
    for (const char* number : {"1e25", "33333333333333333333333", "9223372036854775808", "3.5"}) {
      std::string changed = state;
      changed.replace(changed.find("\"" + key + "\": 3"), key.size() + 5,
                      "\"" + key + "\": " + number);
      const fs::path file = directory.write("state.json", changed);
      EXPECT_EQ(user_error([&] { read_state(file); }),
                file.string() + " is damaged; use an older checkpoint")
          << key << " " << number;
    }
  }
}

TEST(AdapterConfig, IsRefusedWithARankThatNoAdapterHas) {
  const TemporaryDirectory directory;
  const fs::path file = directory.write(
      std::string(kAdapterConfigFile),
      R"({"peft_type": "LORA", "r": 1e300, "lora_alpha": 8, "target_modules": ["q"]})");
  EXPECT_EQ(user_error([&] { read_adapter_config(directory.path()); }),
            file.string() +
                " has \"r\": 1e+300, and no rank reaches 1073741824; it is no LoRA adapter of "
                "PEFT");
}

TEST(Checkpoint, RefusesJsonThatWouldExhaustTheStack) {
  const TemporaryDirectory directory;
  std::string deep;
  for (int i = 0; i < 120000; ++i) deep += "{\"checksum\":";
  deep += "1" + std::string(120000, '}');
  const fs::path file = directory.write("deep.json", deep);
  EXPECT_EQ(user_error([&] { read_manifest(file); }).substr(0, file.string().size() + 11),
            file.string() + " is damaged");
  EXPECT_EQ(user_error([&] { read_state(file); }),
            file.string() + " is damaged; use an older checkpoint");
  std::string prefix(8, '\0');
  for (int i = 0; i < 8; ++i) prefix[i] = static_cast<char>(deep.size() >> (8 * i) & 0xff);
  const fs::path tensors = directory.write("deep.safetensors", prefix + deep);
  EXPECT_EQ(user_error([&] { const SafetensorsFile opened(tensors); }),
            tensors.string() +
                " is not a sound safetensors file: its header nests deeper than 64 levels");
}

}  // namespace
}  // namespace cleave::checkpoint
