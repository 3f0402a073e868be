#pragma once

#include <string>

#include "app/run_cleave.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave::testing {

/// 24 conversations about one of three images, about two of them, or about none, and a config.
class VlmRun : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string files[] = {"colour.jpg", "grey.png", "bits.png"};
    for (const std::string& file : files)
      dir_.write(file, read_text(source_path("tests/golden/image/" + file)));
    std::string lines;
    for (int i = 0; i < 24; ++i) {
      const int images = i % 4 == 0 ? 0 : i % 4 == 3 ? 2 : 1;
      nlohmann::json entry = {{"image", nlohmann::json::array()}};
      std::string asked;
      std::string answer;
      for (int k = 0; k < images; ++k) {
        const int which = (i + k) % 3;
        entry["image"].push_back(files[which]);
        asked += "<image>";
        answer += "abc"[which];
      }
      entry["conversations"] = {{{"from", "human"}, {"value", asked + "?"}},
                                {{"from", "gpt"}, {"value", answer + "."}}};
      lines += entry.dump() + "\n";
    }
    const Answer packed = run_cleave("data pack " + dir_.write("talk.jsonl", lines) +
                                     " --size 8 --capacity 2 --out " + dir_.path("talk.set"));
    ASSERT_EQ(packed.exit, 0) << packed.err;
    dir_.write("run.toml",
               "[model]\nkind = \"vlm\"\nlayers = 2\nhidden = 32\nheads = 2\nimage = 8\npatch = 4\n"
               "gelu = \"quick\"\n[model.vision]\nlayers = 2\nhidden = 16\nheads = 2\nffn = 32\n"
               "[data]\npath = \"" +
                   dir_.path("talk.set") + "\"\nimages = 2\nvalidation = \"" +
                   dir_.path("talk.set") +
                   "\"\n[train]\nsteps = 60\nbatch = 8\nmicrobatch = 2\nsequence = 16\nlr = 1e-2\n"
                   "checkpoint_every = 0\n[numerics]\ndata_shards = 2\n");
  }

  nlohmann::json train(const std::string& out, const std::string& flags) {
    const Answer answer = run_cleave("train " + dir_.path("run.toml") +
                                     " --json --set train.out=" + dir_.path(out) + " " + flags);
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return answer.exit == 0 ? nlohmann::json::parse(answer.out) : nlohmann::json();
  }

  TemporaryDirectory dir_;
};

}  // namespace cleave::testing
