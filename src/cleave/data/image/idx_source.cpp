#include "cleave/base/check.h"
#include "cleave/data/compression.h"
#include "cleave/data/image/sample_source.h"

namespace cleave::data {
namespace {

/// A file of unsigned bytes with `dims` sizes in front, as those of MNIST.
struct IdxFile {
  std::string bytes;
  std::vector<std::int64_t> sizes;
  std::size_t begin = 0;
};

IdxFile read_idx(const std::string& path, int dims) {
  IdxFile file{read_content(path).bytes, {}, static_cast<std::size_t>(4 + 4 * dims)};
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(file.bytes[at]); };
  require(file.bytes.size() >= file.begin && byte(0) == 0 && byte(1) == 0 && byte(2) == 8 &&
              byte(3) == dims,
          path, " does not begin as an IDX file of bytes in ", dims, " dims does (00 00 08 0", dims,
          ")");
  std::int64_t elements = 1;
  constexpr std::int64_t kMostElements = std::int64_t{1} << 40;  // instead of what 64 bits lose
  for (int d = 0; d < dims; ++d) {
    const std::size_t at = 4 + 4 * static_cast<std::size_t>(d);
    const std::int64_t size =
        std::int64_t{byte(at)} << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
    file.sizes.push_back(size);
    elements = size > 0 && elements > kMostElements / size ? kMostElements : elements * size;
  }
  require(std::ssize(file.bytes) - std::ssize(file.sizes) * 4 - 4 == elements, path, " holds ",
          file.bytes.size() - file.begin, " values, and its header says ", elements,
          "; it was cut off or damaged");
  return file;
}

class IdxSource : public SampleSource {
 public:
  explicit IdxSource(const std::string& path) : path_(path), images_(read_idx(path, 3)) {
    require(images_.sizes[1] > 0 && images_.sizes[2] > 0, path, " has images of ", images_.sizes[2],
            " x ", images_.sizes[1], " pixels");
    std::string labels = path;
    const std::string_view images = "images-idx3";
    const std::size_t at = labels.rfind(images);
    require(at != std::string::npos, path,
            " is not called …images-idx3-ubyte, so its labels are not found");
    labels.replace(at, images.size(), "labels-idx1");
    labels_ = read_idx(labels, 1);
    require(labels_.sizes[0] == images_.sizes[0], labels, " has ", labels_.sizes[0],
            " labels, and there are ", images_.sizes[0], " images");
  }

  std::int64_t size() const override { return images_.sizes[0]; }
  std::string name(std::int64_t index) const override {
    return detail::concat("image ", index, " of ", path_);
  }
  Sample read(std::int64_t index) const override {
    Image image{images_.sizes[2], images_.sizes[1], 1, {}};
    const auto* first = reinterpret_cast<const std::uint8_t*>(images_.bytes.data()) +
                        images_.begin + index * image.bytes();
    image.pixels.assign(first, first + image.bytes());
    const char label = labels_.bytes[labels_.begin + static_cast<std::size_t>(index)];
    return {.images = {std::move(image)}, .label = static_cast<std::uint8_t>(label), .text = {}};
  }

 private:
  std::string path_;
  IdxFile images_;
  IdxFile labels_;
};

}  // namespace

std::unique_ptr<SampleSource> open_idx(const std::string& input, const SourceOptions&) {
  return std::make_unique<IdxSource>(input);
}

}  // namespace cleave::data
