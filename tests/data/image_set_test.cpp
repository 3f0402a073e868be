#include <atomic>
#include <set>

#include "support/paths.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/data/dataset.h"
#include "cleave/data/image/pack.h"

namespace cleave::data {
namespace {

using testing::source_path;
using testing::TemporaryDirectory;
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

PackOptions small_options(const std::string& input) {
  return {.shape = {.width = 12,
                    .height = 10,
                    .channels = 3,
                    .mean = {0.5, 0.5, 0.5},
                    .deviation = {0.5, 0.5, 0.5}},
          .filter = &find_resize_filter("bilinear"),
          .input = input};
}

PackReport pack(const std::string& input, const std::string& out, PackOptions options,
                std::vector<std::string>* bad = nullptr) {
  return pack_samples(*open_source(input, {}), out, options,
                      {.on_done = [](std::int64_t) {},
                       .on_bad =
                           [&](const std::string& s) {
                             if (bad) bad->push_back(s);
                           }});
}

PackReport pack(const std::string& input, const std::string& out) {
  return pack(input, out, small_options(input));
}

std::string complaint_of(const std::string& input, const std::string& out) {
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

/// `count` grey images with labels, as MNIST has them.
std::string write_idx(const TemporaryDirectory& dir, int count) {
  const char n[] = {static_cast<char>(count >> 8), static_cast<char>(count & 255)};
  std::string images("\0\0\x8\x3\0\0", 6);
  images += std::string(n, 2) + std::string("\0\0\0\x4\0\0\0\x4", 8);
  std::string labels("\0\0\x8\x1\0\0", 6);
  labels += std::string(n, 2);
  for (int i = 0; i < count; ++i) {
    for (int p = 0; p < 16; ++p) images += static_cast<char>(i * 7 + p * 3);
    labels += static_cast<char>(i % 10);
  }
  dir.write("t-labels-idx1-ubyte", labels);
  return dir.write("t-images-idx3-ubyte", images);
}

TEST(ImageSet, GoesOnAfterAnInterruptionAndIsTheSame) {
  const TemporaryDirectory dir;
  const auto source = open_source(write_idx(dir, 300), {});
  PackOptions options = small_options("idx");
  options.shape.channels = 1;
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
  PackOptions options = small_options("idx");
  options.shape.channels = 1;
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

  EXPECT_EQ(complaint_of(pets, dir.path("a.set")),
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
  EXPECT_EQ(complaint_of(dir.write("b.csv", "a,b\n1,2\n"), dir.path("b.set")),
            dir.path("b.csv") +
                " must name its columns in its first line: \"path\", and \"label\" or \"caption\"");
  EXPECT_EQ(
      complaint_of(dir.write("c.csv", "path,caption\npets/cat/1.jpg,\xff\n"), dir.path("c.set")),
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
  EXPECT_TRUE(complaint_of(no_image, dir.path("b.set"))
                  .starts_with("sample 7 of " + no_image +
                               " has 1 image tokens (<image>) and 0 "
                               "images; give one image for each"));
  const std::string many = dir.write(
      "many.json",
      "[{\"id\": 8, \"image\": [\"pets/cat/1.jpg\", \"pets/cat/1.jpg\"], \"conversations\": "
      "[{\"from\": \"human\", \"value\": \"<image><image>\"}]}]");
  EXPECT_TRUE(complaint_of(many, dir.path("b.set"))
                  .starts_with("sample 8 of " + many +
                               " has 2 images, and a sample of the set has "
                               "room for 1 (raise --capacity)"));
}

TEST(ImageSet, SaysWhatIsWrongWithIdxFiles) {
  const TemporaryDirectory dir;
  const std::string images = write_idx(dir, 3);
  const std::string whole = read_text(images);

  dir.write("t-images-idx3-ubyte", whole.substr(0, 40));
  EXPECT_EQ(complaint_of(images, dir.path("a.set")),
            images + " holds 24 values, and its header says 48; it was cut off or damaged");
  dir.write("t-images-idx3-ubyte", "ab" + whole);
  EXPECT_EQ(complaint_of(images, dir.path("a.set")),
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

/// The set of 300 images of 4 x 4 with the values 7 i + 3 p, and the labels i % 10.
std::string packed_idx(const TemporaryDirectory& dir) {
  PackOptions options = small_options("idx");
  options.shape.width = options.shape.height = 4;
  options.shape.channels = 1;
  pack(write_idx(dir, 300), dir.path("a.set"), options);
  return dir.path("a.set");
}

Query image_query(const std::string& path) {
  Query query{.images = {.side = 4, .patch = 2, .channels = 1, .classes = 10}, .batch = 7};
  query.config.path = {{path}};
  query.config.validation = 0.1;
  return query;
}

TEST(ImageData, IsReadInPatches) {
  const TemporaryDirectory dir;
  const Data data(image_query(packed_idx(dir)));
  std::vector<float> values(16);
  std::vector<std::uint8_t> room(static_cast<std::size_t>(data.training().room()));
  std::int32_t label = 0;

  data.training().read(12, "patches", {.values = values, .room = room});
  data.training().read(12, "labels", {.ids = {&label, 1}});

  EXPECT_EQ(label, 2);
  const int order[] = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(values[i], static_cast<float>(((12 * 7 + 3 * order[i]) % 256 / 255.0 - 0.5) / 0.5));
}

TEST(ImageData, VisitsEveryImageOncePerEpochAndHoldsSomeOut) {
  const TemporaryDirectory dir;
  const Data data(image_query(packed_idx(dir)));
  ASSERT_EQ(data.training().windows(), 270);
  EXPECT_EQ(data.validation()->windows(), 30);

  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 270; ++i) seen.insert(data.training().window(i / 7, i % 7));
  EXPECT_EQ(seen.size(), 270u);
}

TEST(ImageData, SaysWhatDoesNotFitTheModel) {
  const TemporaryDirectory dir;
  const std::string path = packed_idx(dir);
  const auto complaint = [](const Query& query) -> std::string {
    try {
      const Data data(query);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };

  Query query = image_query(path);
  query.images.side = 8;
  EXPECT_EQ(complaint(query), path +
                                  " has images of 4 x 4 x 1, and the model reads 8 x 8 x 1; pack "
                                  "them with --size 8 --channels 1, or set model.image and "
                                  "model.channels");
  query = image_query(path);
  query.images.classes = 5;
  EXPECT_EQ(complaint(query), path + " has labels up to 9, and model.classes is 5; set it to 10");
  query = image_query(dir.write("no.set", std::string(100, 'x')));
  EXPECT_EQ(complaint(query), dir.path("no.set") +
                                  " is no packed set of images (it begins with other bytes); make "
                                  "one with cleave data pack");
}

}  // namespace
}  // namespace cleave::data
