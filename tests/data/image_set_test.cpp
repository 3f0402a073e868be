#include <atomic>

#include "data/packed_images.h"
#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/base/file.h"

namespace cleave::data {
namespace {

using testing::pack;
using testing::small_options;
using testing::source_path;
using testing::TemporaryDirectory;
using testing::write_idx;
namespace fs = std::filesystem;

std::string golden_bytes(const std::string& name) {
  return read_text(source_path("tests/golden/image/" + name));
}

/// Two classes of two and one images, in three formats.
std::string write_folders(const TemporaryDirectory& dir) {
  dir.write("pets/cat/1.jpg", golden_bytes("colour.jpg"));
  dir.write("pets/cat/2.PNG", golden_bytes("palette.png"));
  dir.write("pets/dog/3.webp", golden_bytes("lossy.webp"));
  dir.write("pets/dog/notes.txt", "no image");
  return dir.path("pets");
}

PackReport pack(const std::string& input, const std::string& out) {
  return pack(input, out, small_options(input));
}

std::string complaint_about_packing(const std::string& input, const std::string& out) {
  try {
    pack(input, out);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

bool nothing_is_left(const std::string& out) {
  return !fs::exists(out) && !fs::exists(out + ".partial") && !fs::exists(out + ".partial.index");
}

TEST(ImageSet, HoldsTheImagesAndLabelsOfFolders) {
  const TemporaryDirectory dir;
  const std::string pets = write_folders(dir);

  const PackReport report = pack(pets, dir.path("a.set"));
  const ImageSet set(dir.path("a.set"));

  EXPECT_EQ(report.samples, 3);
  ASSERT_EQ(set.size(), 3);
  EXPECT_EQ(set.description().classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(set.description().labels, 2);
  EXPECT_EQ(set.description().fit, "crop");
  EXPECT_EQ(set.description().filter, "bilinear");
  EXPECT_EQ(set.entry(1).label, 0);
  EXPECT_EQ(set.entry(2).label, 1);
  std::vector<std::uint8_t> pixels(360);
  set.read_image(1, 0, pixels);
  const Image image = read_image(pets + "/cat/2.PNG");
  EXPECT_EQ(
      pixels,
      resize(image, fitted(67, 45, 12, 10, Fit::Crop), find_resize_filter("bilinear")).pixels);
}

TEST(ImageSet, IsTheSameForAnyNumberOfThreads) {
  const TemporaryDirectory dir;
  const std::string pets = write_folders(dir);
  PackOptions options = small_options(pets);
  pack(pets, dir.path("a.set"), options);
  options.threads = 3;
  pack(pets, dir.path("b.set"), options);

  EXPECT_EQ(read_text(dir.path("a.set")), read_text(dir.path("b.set")));
}

/// Stops as a process that is killed does: in the middle of a sample.
class Interrupted : public SampleSource {
 public:
  Interrupted(const SampleSource& whole, std::int64_t end) : whole_(whole), end_(end) {}
  std::int64_t size() const override { return whole_.size(); }
  std::string name(std::int64_t index) const override { return whole_.name(index); }
  Sample read(std::int64_t index) const override {
    ++reads;
    if (index == end_) throw std::runtime_error("power cut");
    return whole_.read(index);
  }
  mutable std::atomic<int> reads = 0;

 private:
  const SampleSource& whole_;
  std::int64_t end_;
};

TEST(ImageSet, GoesOnAfterAnInterruptionAndIsTheSame) {
  const TemporaryDirectory dir;
  const auto source = open_source(write_idx(dir, 300), {});
  PackOptions options = small_options("idx", 1);
  const PackObserver quiet{[](std::int64_t) {}, [](const std::string&) {}};
  pack_samples(*source, dir.path("a.set"), options, quiet);

  const Interrupted cut(*source, 290);
  EXPECT_THROW(pack_samples(cut, dir.path("b.set"), options, quiet), std::runtime_error);
  EXPECT_FALSE(fs::exists(dir.path("b.set")));
  const Interrupted rest(*source, -1);
  const PackReport report = pack_samples(rest, dir.path("b.set"), options, quiet);

  EXPECT_EQ(report.resumed, 256);
  EXPECT_EQ(rest.reads, 300 - 256);
  EXPECT_EQ(read_text(dir.path("a.set")), read_text(dir.path("b.set")));
  EXPECT_FALSE(fs::exists(dir.path("b.set.partial.index")));
}

TEST(ImageSet, BeginsAnewWhereTheWorkWasOfAnotherKind) {
  const TemporaryDirectory dir;
  const auto source = open_source(write_idx(dir, 300), {});
  PackOptions options = small_options("idx", 1);
  const PackObserver quiet{[](std::int64_t) {}, [](const std::string&) {}};
  EXPECT_THROW(pack_samples(Interrupted(*source, 290), dir.path("b.set"), options, quiet),
               std::runtime_error);
  options.fit = Fit::Stretch;

  EXPECT_EQ(pack_samples(*source, dir.path("b.set"), options, quiet).resumed, 0);
}

TEST(ImageSet, StopsAtABadSampleAndLeavesNothing) {
  const TemporaryDirectory dir;
  const std::string pets = write_folders(dir);
  dir.write("pets/dog/broken.jpg", golden_bytes("colour.jpg").substr(0, 400));

  EXPECT_EQ(complaint_about_packing(pets, dir.path("a.set")),
            "image " + pets +
                "/dog/broken.jpg cannot be used: this JPEG is damaged (Premature end "
                "of JPEG file); mend it, or skip samples that cannot be used with --skip-bad");
  EXPECT_TRUE(nothing_is_left(dir.path("a.set")));
}

TEST(ImageSet, SkipsBadSamplesByNameIfAsked) {
  const TemporaryDirectory dir;
  const std::string pets = write_folders(dir);
  dir.write("pets/cat/0.jpg", "");
  PackOptions options = small_options(pets);
  options.bad = BadSamples::Skip;
  std::vector<std::string> bad;

  const PackReport report = pack(pets, dir.path("a.set"), options, &bad);

  EXPECT_EQ(report.set.skipped, 1);
  EXPECT_EQ(report.samples, 3);
  EXPECT_EQ(bad, std::vector<std::string>{"image " + pets + "/cat/0.jpg is empty"});
  EXPECT_EQ(ImageSet(dir.path("a.set")).size(), 3);
}

TEST(ImageSet, ReadsPathsLabelsAndCaptionsOfACsv) {
  const TemporaryDirectory dir;
  write_folders(dir);
  const std::string csv = dir.write("list.csv",
                                    "path,label,caption\n"
                                    "pets/cat/1.jpg,zebra,\"a \"\"cat\"\", grey\"\r\n"
                                    "pets/dog/3.webp,ant,a dog\n");
  pack(csv, dir.path("a.set"));
  const ImageSet set(dir.path("a.set"));

  EXPECT_EQ(set.read_text(0), "a \"cat\", grey");
  EXPECT_EQ(set.entry(0).label, 1);
  EXPECT_EQ(set.entry(1).label, 0);
  EXPECT_EQ(complaint_about_packing(dir.write("b.csv", "a,b\n1,2\n"), dir.path("b.set")),
            dir.path("b.csv") +
                " must name its columns in its first line: \"path\", and \"label\" or \"caption\"");
  EXPECT_EQ(complaint_about_packing(dir.write("c.csv", "path,caption\npets/cat/1.jpg,\xff\n"),
                                    dir.path("c.set")),
            "the caption of " + dir.path("pets/cat/1.jpg") +
                " is not UTF-8; mend it, or skip samples that cannot be used with "
                "--skip-bad");
  EXPECT_TRUE(nothing_is_left(dir.path("c.set")));
}

TEST(ImageSet, ReadsConversationsWithAnyNumberOfImages) {
  const TemporaryDirectory dir;
  write_folders(dir);
  const std::string list = dir.write(
      "chat.jsonl",
      "{\"id\": \"a\", \"image\": \"pets/cat/1.jpg\", \"conversations\": [{\"from\": \"human\", "
      "\"value\": \"<image>\\nWhat?\"}, {\"from\": \"gpt\", \"value\": \"A cat.\"}]}\n"
      "{\"id\": \"b\", \"conversations\": [{\"from\": \"human\", \"value\": \"Hello\"}]}\n");
  pack(list, dir.path("a.set"));
  const ImageSet set(dir.path("a.set"));

  EXPECT_EQ(set.entry(0).images, 1u);
  EXPECT_EQ(set.entry(1).images, 0u);
  EXPECT_EQ(set.read_text(1), "[{\"from\":\"human\",\"value\":\"Hello\"}]");
  const std::string no_image = dir.write(
      "bad.json",
      "[{\"id\": 7, \"conversations\": [{\"from\": \"human\", \"value\": \"<image>\"}]}]");
  EXPECT_TRUE(complaint_about_packing(no_image, dir.path("b.set"))
                  .starts_with("sample 7 of " + no_image +
                               " has 1 image tokens (<image>) and 0 "
                               "images; give one image for each"));
  const std::string many = dir.write(
      "many.json",
      "[{\"id\": 8, \"image\": [\"pets/cat/1.jpg\", \"pets/cat/1.jpg\"], \"conversations\": "
      "[{\"from\": \"human\", \"value\": \"<image><image>\"}]}]");
  EXPECT_TRUE(complaint_about_packing(many, dir.path("b.set"))
                  .starts_with("sample 8 of " + many +
                               " has 2 images, and a sample of the set has "
                               "room for 1 (raise --capacity)"));
}

TEST(ImageSet, SaysWhatIsWrongWithIdxFiles) {
  const TemporaryDirectory dir;
  const std::string images = write_idx(dir, 3);
  const std::string whole = read_text(images);

  dir.write("t-images-idx3-ubyte", whole.substr(0, 40));
  EXPECT_EQ(complaint_about_packing(images, dir.path("a.set")),
            images + " holds 24 values, and its header says 48; it was cut off or damaged");
  dir.write("t-images-idx3-ubyte", "ab" + whole);
  EXPECT_EQ(complaint_about_packing(images, dir.path("a.set")),
            images + " does not begin as an IDX file of bytes in 3 dims does (00 00 08 03)");
}

TEST(ImageSet, NoticesDamage) {
  const TemporaryDirectory dir;
  pack(write_folders(dir), dir.path("a.set"));
  const std::string whole = read_text(dir.path("a.set"));
  const auto open = [&](const std::string& bytes) -> std::string {
    try {
      const ImageSet set(dir.write("b.set", bytes));
      std::vector<std::uint8_t> pixels(360);
      for (int i = 0; i < set.size(); ++i) set.read_image(i, 0, pixels);
    } catch (const UserError& error) {
      return std::string(error.what()).substr(dir.path("b.set").size());
    }
    return "";
  };

  EXPECT_EQ(open(whole), "");
  EXPECT_EQ(open(whole.substr(0, whole.size() - 1)), " was cut off or damaged; pack it again");
  for (std::size_t at = 0; at < whole.size(); at += 5) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 1);
    EXPECT_NE(open(broken), "") << at;
  }
}

}  // namespace
}  // namespace cleave::data
