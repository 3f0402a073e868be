#include "cleave/train/loop/fetch.h"

#include <fstream>

#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/comm/launcher.h"
#include "cleave/comm/together.h"
#include "cleave/train/loop/starting.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

class Fetch : public ::testing::Test {
 protected:
  std::string checkpoint(const std::string& run, const std::string& name) {
    const fs::path file = directory_.write(run + "/checkpoints/" + name + "/weights", run + name);
    return file.parent_path();
  }

  using Way = std::string (*)(comm::Communicator&, const std::string&, const fs::path&);

  /// Where the second process has it.
  std::string fetched(const std::string& path, Way way = fetch_checkpoint) {
    comm::LocalLauncher launcher;
    std::string original;
    std::string copy;
    launcher.run(2, 1,
                 [&](comm::Communicator& world) {
                   const std::string here = way(world, path, cache_);
                   (world.rank() == 0 ? original : copy) = here;
                 },
                 {});
    EXPECT_EQ(original, path);
    return copy;
  }

  testing::TemporaryDirectory directory_;
  fs::path cache_ = directory_.path("cache");
};

TEST_F(Fetch, KeepsTheNewestCheckpointOfEachRun) {
  const std::string first = fetched(checkpoint("a", "step_1"));
  const std::string other = fetched(checkpoint("b", "step_1"));
  ASSERT_TRUE(fs::exists(first));
  const std::string second = fetched(checkpoint("a", "step_2"));

  EXPECT_FALSE(fs::exists(first));
  EXPECT_TRUE(fs::exists(other));
  std::string text;
  std::getline(std::ifstream(fs::path(second) / "weights"), text);
  EXPECT_EQ(text, "astep_2");
  EXPECT_EQ(fetched(checkpoint("a", "step_2")), second) << "nothing new";
}

// More files than fit into one message, of which one begins in the middle of a message and ends in
// the next but one; empty ones at all places.
TEST_F(Fetch, BringsManyFilesInFewMessages) {
  constexpr int kFiles = 300;
  const auto text_of = [](int i) {
    return i % 50 == 0 ? "" : i == 151 ? std::string(9 << 20, 'x') : "file " + std::to_string(i);
  };
  for (int i = 0; i < kFiles; ++i)
    directory_.write("data/part" + std::to_string(i % 7) + "/" + std::to_string(i), text_of(i));
  const std::string path = directory_.path("data");

  std::int64_t messages = 0;
  std::string copy;
  comm::LocalLauncher launcher;
  launcher.run(2, 1,
               [&](comm::Communicator& world) {
                 world.log().reserve(kFiles);
                 world.log().clear();
                 const std::string here = fetch(world, path, cache_);
                 if (world.rank() == 0) return;
                 copy = here;
                 messages = std::ssize(world.log().exchanges());
               },
               {});

  EXPECT_LE(messages, 10);
  for (int i = 0; i < kFiles; ++i) {
    std::ifstream file(fs::path(copy) / ("part" + std::to_string(i % 7)) / std::to_string(i));
    ASSERT_TRUE(file.is_open()) << i;
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_TRUE(text == text_of(i)) << i;
  }
}

TEST_F(Fetch, LeavesDraftsOfTheSameCheckpointAlone) {
  const fs::path first = fetched(checkpoint("a", "step_1"));
  const fs::path copies = first.parent_path();
  const fs::path second = fetched(checkpoint("a", "step_2"));
  const fs::path draft = second.string() + ".123";
  fs::create_directories(draft);
  fs::create_directories(copies / "lost.123");

  fetched(checkpoint("a", "step_2"));

  EXPECT_TRUE(fs::exists(draft)) << "another process of this machine may be at it";
  EXPECT_FALSE(fs::exists(copies / "lost.123"));
}

TEST_F(Fetch, BringsWhatIsReadBesideAFileAndTheFilesOfAPattern) {
  const std::string tokens = directory_.write("m.bin", "tokens");
  directory_.write("m.idx", "index");
  directory_.write("notes..txt", "first");
  directory_.write("notes.txt", "second");

  const fs::path copy = fetched(tokens, fetch);
  EXPECT_EQ(copy.filename(), "m.bin");
  EXPECT_TRUE(fs::exists(copy.parent_path() / "m.idx"));
  const fs::path pattern = fetched(directory_.path("notes*.txt"), fetch);
  EXPECT_EQ(pattern.filename(), "notes*.txt");
  EXPECT_TRUE(fs::exists(pattern.parent_path() / "notes..txt"));
  EXPECT_TRUE(fs::exists(pattern.parent_path() / "notes.txt"));
}

TEST(SameData, IsDemandedOfEveryDevice) {
  comm::LocalLauncher launcher;
  const auto refusal = [&](const std::string& last) {
    std::string said;
    launcher.run(3, 1,
                 [&](comm::Communicator& world) {
                   const auto check = [&] {
                     check_same_data(world, world.rank() == 2 ? last : "5 tokens");
                   };
                   if (world.rank() == 0) {
                     said = testing::user_error(check);
                   } else if (last == "5 tokens") {
                     check();
                   } else {
                     EXPECT_THROW(check(), comm::PeerFailed) << world.rank();
                   }
                 },
                 {});
    return said;
  };

  EXPECT_EQ(refusal("5 tokens"), "(no UserError was thrown)");
  EXPECT_EQ(refusal("6 tokens"),
            "device 2 reads other data (6 tokens) than device 0 (5 tokens); data.path, "
            "data.validation and data.tokenizer must lead to the same files on every machine");
}

}  // namespace
}  // namespace cleave::train
