// A packed set whose sums are right and whose description is not: somebody else has made it.

#include <cstring>
#include <string>

#include "data/packed_images.h"
#include "support/errors.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>

#include "cleave/base/file.h"
#include "cleave/base/hash.h"
#include "cleave/data/image/image_set_format.h"

namespace cleave::data {
namespace {

using testing::TemporaryDirectory;
using testing::user_error;

/// A whole set that describes itself with `to` in place of `from`.
std::string described_as(const std::string& set, const std::string& from, const std::string& to) {
  SetHeader header;
  std::memcpy(&header, set.data(), sizeof header);
  std::string text = set.substr(header.description, header.description_bytes);
  text.replace(text.find(from), from.size(), to);
  const std::string index = set.substr(header.index);
  Hasher hasher;
  hasher.add(text);
  hasher.add(index);
  header.description_bytes = text.size();
  header.index = header.description + text.size();
  header.digest = hasher.digest();
  header.sum = sum_of(header);
  std::string bytes = set.substr(0, header.description) + text + index;
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

class ImageSetDescription : public ::testing::Test {
 protected:
  ImageSetDescription() {
    const std::string idx = testing::write_idx(dir_, 3);
    testing::pack(idx, dir_.path("a.set"), testing::small_options(idx, 1));
    whole_ = read_text(dir_.path("a.set"));
  }

  std::string said(const std::string& from, const std::string& to) {
    return user_error([&] { ImageSet(dir_.write("b.set", described_as(whole_, from, to))); });
  }

  TemporaryDirectory dir_;
  std::string whole_;
};

TEST_F(ImageSetDescription, GivesImagesPixelsAndEveryChannelItsNumbers) {
  EXPECT_EQ(said(R"("skipped":0)", R"("skipped":1)"), "(no UserError was thrown)");
  const char* const cases[][2] = {{R"("channels":1)", R"("channels":3)"},
                                  {R"("channels":1)", R"("channels":0)"},
                                  {R"("width":12)", R"("width":0)"},
                                  {R"("height":10)", R"("height":-10)"},
                                  {R"("width":12)", R"("width":4611686018427387904)"},
                                  {R"("mean":[0.5])", R"("mean":[])"},
                                  {R"("deviation":[0.5])", R"("deviation":[0.0])"},
                                  {R"("capacity":1)", R"("capacity":0)"}};
  for (const auto& [from, to] : cases)
    EXPECT_EQ(said(from, to),
              dir_.path("b.set") + " has a description that cannot be read; pack it again")
        << to;
}

TEST_F(ImageSetDescription, CountsTheLabels) {
  EXPECT_EQ(said(R"("labels":3)", R"("labels":2)"),
            dir_.path("b.set") + " has a label 2, and its labels end before 2; pack it again");
}

}  // namespace
}  // namespace cleave::data
