#include "cleave/data/image/tar.h"

#include <cstdio>
#include <cstring>

#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/data/image/sample_source.h"

namespace cleave::data {
namespace {

using testing::source_path;
using testing::TemporaryDirectory;

/// A header and the bytes of one file, as tar has them.
std::string tar_file(const std::string& name, const std::string& bytes, char type = '0') {
  std::string header(512, '\0');
  std::memcpy(header.data(), name.data(), std::min<std::size_t>(name.size(), 100));
  std::snprintf(header.data() + 124, 12, "%011o", static_cast<unsigned>(bytes.size()));
  std::memcpy(header.data() + 257, "ustar\00000", 8);
  header[156] = type;
  unsigned sum = 8 * ' ';
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(header.data() + 148, 8, "%06o", sum);
  return header + bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
}

const std::string kEnd(1024, '\0');

std::string golden_image(const std::string& name) {
  return read_text(source_path("tests/golden/image/" + name));
}

TEST(Tar, ListsFilesWithNamesOfAnyLength) {
  const TemporaryDirectory dir;
  const std::string deep = std::string(150, 'd') + "/a.txt";
  const std::string record = "path=pax.txt\n";
  const std::string tar = dir.write(
      "a.tar", tar_file("folder/", "", '5') + tar_file("short.txt", "one") +
                   tar_file("@LongLink", deep, 'L') + tar_file("cut", "two") +
                   tar_file("header", std::to_string(record.size() + 3) + " " + record, 'x') +
                   tar_file("other", "three") + kEnd);

  const auto entries = tar_entries(File::open(tar));

  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name, "short.txt");
  EXPECT_EQ(entries[1].name, deep);
  EXPECT_EQ(entries[2].name, "pax.txt");
  EXPECT_EQ(entries[2].bytes, 5);
}

TEST(Tar, GroupsFilesIntoSamplesAcrossShards) {
  const TemporaryDirectory dir;
  dir.write("s-08.tar", tar_file("x/0.jpg", golden_image("colour.jpg")) +
                            tar_file("x/0.txt", "a wave") + tar_file("x/1.cls", "7\n") +
                            tar_file("x/1.png", golden_image("grey.png")) + kEnd);
  dir.write("s-09.tar", tar_file("x/1.webp", golden_image("lossy.webp")) +
                            tar_file("x/1.json", R"({"caption": "c", "label": 3})") + kEnd);

  const auto source = open_source(dir.path("s-{08..09}.tar"), {});

  ASSERT_EQ(source->size(), 3);
  EXPECT_EQ(source->read(0).text, "a wave");
  EXPECT_EQ(source->read(1).label, 7);
  EXPECT_EQ(source->read(2).text, "c");
  EXPECT_EQ(source->read(2).label, 3);
  EXPECT_EQ(source->read(2).images.at(0).width, 67);
}

std::string complaint_about_source(const std::string& path) {
  try {
    const auto source = open_source(path, {});
    for (std::int64_t i = 0; i < source->size(); ++i) source->read(i);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Tar, SaysWhatIsWrong) {
  const TemporaryDirectory dir;
  const std::string whole =
      tar_file("0.jpg", golden_image("colour.jpg")) + tar_file("0.txt", "\xff") + kEnd;

  const std::string cut = dir.write("cut.tar", whole.substr(0, 1000));
  EXPECT_EQ(complaint_about_source(cut), cut + " was cut short inside of 0.jpg; fetch it again");
  const std::string none = dir.write("none.tar", std::string(600, 'x'));
  EXPECT_EQ(complaint_about_source(none),
            none + " is no tar file (the header at byte 0 has a wrong sum)");
  const std::string bytes = dir.write("bytes.tar", whole);
  EXPECT_EQ(complaint_about_source(bytes), "the caption of 0 of " + bytes + " is not UTF-8");
  const std::string bare = dir.write("bare.tar", tar_file("0.txt", "a") + kEnd);
  EXPECT_EQ(complaint_about_source(bare), "0 of " + bare + " has no image (.jpg, .png or .webp)");
  EXPECT_EQ(complaint_about_source(dir.path("a-{3..1}.tar")),
            dir.path("a-{3..1}.tar") + " has a range {3..1} that does not count upwards");
}

TEST(Tar, HasLabelsThatAreClassNumbers) {
  const TemporaryDirectory dir;
  const auto said = [&](const std::string& name, const std::string& text) {
    return complaint_about_source(dir.write(
        "a.tar", tar_file("0.png", golden_image("grey.png")) + tar_file("0" + name, text) + kEnd));
  };
  const std::string sample = "0 of " + dir.path("a.tar");

  for (const char* text : {"0", " 7\r\n", "2147483646"}) EXPECT_EQ(said(".cls", text), "") << text;
  for (const char* text : {"7abc", "7 8", "", "-1", "2147483647", "4294967299"})
    EXPECT_EQ(said(".cls", text), "the .cls of " + sample + " is no class number") << text;
  EXPECT_EQ(said(".json", R"({"label": 2147483646})"), "");
  EXPECT_EQ(said(".json", R"({"label": 4294967299})"),
            "the .json of " + sample + " has \"label\": 4294967299, which is no class number");
  EXPECT_EQ(said(".json", R"({"cls": 2147483647})"),
            "the .json of " + sample + " has \"cls\": 2147483647, which is no class number");
}

}  // namespace
}  // namespace cleave::data
