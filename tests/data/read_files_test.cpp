#include "cleave/data/read_files.h"

#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

namespace cleave::data {
namespace {

using testing::TemporaryDirectory;
using testing::user_error;
using Names = std::vector<std::string>;

TEST(ReadFiles, ListWhatIsReadBesideAFile) {
  const TemporaryDirectory dir;
  for (const char* name : {"m.bin", "m.idx", "n.bin", "p.bin.gz", "p.idx", "a.txt",
                           "tokenizer.json", "tokenizer_config.json"})
    dir.write(name, "x");
  const auto files_of = [&](const std::string& name) {
    return files_read_at(dir.path(name)).files;
  };

  EXPECT_EQ(files_of("m.bin"), (Names{"m.bin", "m.idx"}));
  EXPECT_EQ(files_of("p.bin.gz"), (Names{"p.bin.gz", "p.idx"}));
  EXPECT_EQ(files_of("n.bin"), Names{"n.bin"});
  EXPECT_EQ(files_of("a.txt"), Names{"a.txt"});
  EXPECT_EQ(files_of("tokenizer.json"), (Names{"tokenizer.json", "tokenizer_config.json"}));
}

TEST(ReadFiles, AreThoseThatAPatternMatches) {
  const TemporaryDirectory dir;
  for (const char* name : {"a/s-2.bin", "a/s-1.bin", "b/s-1.bin", "b/s-1.idx", "b/t.bin"})
    dir.write(name, "x");

  const ReadFiles below = files_read_at(dir.path("*/s-?.bin"));
  EXPECT_EQ(below.base, dir.path());
  EXPECT_EQ(below.name, "*/s-?.bin");
  EXPECT_EQ(below.files, (Names{"a/s-1.bin", "a/s-2.bin", "b/s-1.bin", "b/s-1.idx"}));
  EXPECT_EQ(files_read_at(dir.path("a/s-*")).files, (Names{"s-1.bin", "s-2.bin"}));
  const std::string none = dir.path("c-*");
  EXPECT_EQ(user_error([&] { files_read_at(none); }), "file " + none + " matches no file");
}

TEST(ReadFiles, OfADirectoryKeepTheNamesOfLinks) {
  const TemporaryDirectory dir;
  const std::string blob = dir.write("blobs/0123", "x");
  dir.write("model/sub/notes..txt", "x");
  std::filesystem::create_symlink(blob, dir.path("model/model.safetensors"));

  for (const char* name : {"model", "model/"}) {
    const ReadFiles read = files_read_at(dir.path(name));
    EXPECT_EQ(read.name, "");
    EXPECT_EQ(read.files, (Names{"model.safetensors", "sub/notes..txt"})) << name;
  }
}

}  // namespace
}  // namespace cleave::data
