#include <algorithm>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/data/image/sample_source.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

/// A directory whose folders are classes, in the order of their names.
class FolderSource : public SampleSource {
 public:
  explicit FolderSource(const fs::path& root) {
    std::vector<fs::path> folders;
    for (const fs::directory_entry& entry : fs::directory_iterator(root))
      if (entry.is_directory() && !entry.path().filename().string().starts_with('.'))
        folders.push_back(entry.path());
    std::ranges::sort(folders);
    for (const fs::path& folder : folders) add_class(folder);
    require(!files_.empty(), "no folder below ", root.string(),
            " has images; give a directory with a folder per class");
  }

  std::int64_t size() const override { return std::ssize(files_); }
  std::string name(std::int64_t index) const override { return files_[index].first.string(); }
  Sample read(std::int64_t index) const override {
    const auto& [path, label] = files_[index];
    return {.images = {read_image(path.string())}, .label = label, .text = {}};
  }
  std::vector<std::string> classes() const override { return classes_; }

 private:
  void add_class(const fs::path& folder) {
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file() && is_image_name(entry.path())) found.push_back(entry.path());
    if (found.empty()) return;
    std::ranges::sort(found);
    const auto label = static_cast<std::int32_t>(classes_.size());
    classes_.push_back(folder.filename().string());
    for (fs::path& path : found) files_.emplace_back(std::move(path), label);
  }

  std::vector<std::string> classes_;
  std::vector<std::pair<fs::path, std::int32_t>> files_;
};

}  // namespace

std::unique_ptr<SampleSource> open_folder(const std::string& input, const SourceOptions&) {
  return std::make_unique<FolderSource>(input);
}

}  // namespace cleave::data
