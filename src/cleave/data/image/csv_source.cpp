#include <algorithm>
#include <set>
#include <utility>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/data/image/sample_source.h"

namespace cleave::data {
namespace {

namespace fs = std::filesystem;

using CsvRow = std::vector<std::string>;

/// Rows of cells; a cell in double quotes may hold commas, newlines and, doubled, quotes.
std::vector<CsvRow> parse_csv(const std::string& text, const std::string& name) {
  std::vector<CsvRow> rows;
  CsvRow row;
  std::string cell;
  bool quoted = false;
  const auto end_row = [&] {
    row.push_back(std::exchange(cell, {}));
    if (row.size() > 1 || !row[0].empty()) rows.push_back(row);
    row.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      const bool doubled = c == '"' && i + 1 < text.size() && text[i + 1] == '"';
      if (c == '"' && !doubled) {
        quoted = false;
      } else {
        cell += c;
        if (doubled) ++i;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      row.push_back(std::exchange(cell, {}));
    } else if (c == '\n') {
      end_row();
    } else if (c != '\r') {
      cell += c;
    }
  }
  require(!quoted, name, " ends inside of a quoted cell; it was cut off");
  if (!cell.empty() || !row.empty()) end_row();
  return rows;
}

/// Lines of a path and a label or a caption; the first line names the columns.
class CsvSource : public SampleSource {
 public:
  CsvSource(const std::string& path, const SourceOptions& options)
      : root_(options.images.empty() ? fs::path(path).parent_path() : options.images),
        rows_(parse_csv(read_text(path), path)) {
    require(!rows_.empty(), path, " is empty");
    path_ = column({"path", "image", "file", "filepath", "filename"});
    label_ = column({"label", "class"});
    caption_ = column({"caption", "text", "title"});
    require(path_ >= 0 && (label_ >= 0 || caption_ >= 0), path,
            " must name its columns in its first line: \"path\", and \"label\" or \"caption\"");
    for (std::size_t i = 1; i < rows_.size(); ++i)
      require(rows_[i].size() == rows_[0].size(), "line ", i + 1, " of ", path, " has ",
              rows_[i].size(), " cells, and the first line has ", rows_[0].size());
    rows_.erase(rows_.begin());
    name_classes();
  }

  std::int64_t size() const override { return std::ssize(rows_); }
  std::string name(std::int64_t index) const override {
    return (root_ / rows_[index][path_]).string();
  }
  Sample read(std::int64_t index) const override {
    Sample sample;
    if (label_ >= 0) sample.label = label_of(rows_[index][label_]);
    if (caption_ >= 0) sample.text = rows_[index][caption_];
    check_caption(sample.text, name(index));
    sample.images.push_back(read_image(name(index)));
    return sample;
  }
  std::vector<std::string> classes() const override { return classes_; }

 private:
  int column(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      const auto found = std::ranges::find(rows_[0], name);
      if (found != rows_[0].end()) return static_cast<int>(found - rows_[0].begin());
    }
    return -1;
  }

  /// Labels that are all numbers stay what they are; words are numbered in their order.
  void name_classes() {
    if (label_ < 0) return;
    const bool numbers = std::ranges::all_of(
        rows_, [&](const CsvRow& row) { return class_number(row[label_]).has_value(); });
    if (numbers) return;
    std::set<std::string> words;
    for (const CsvRow& row : rows_) words.insert(row[label_]);
    classes_.assign(words.begin(), words.end());
  }

  std::int32_t label_of(const std::string& text) const {
    if (classes_.empty()) return *class_number(text);
    return static_cast<std::int32_t>(std::ranges::lower_bound(classes_, text) - classes_.begin());
  }

  fs::path root_;
  std::vector<CsvRow> rows_;
  std::vector<std::string> classes_;
  int path_ = -1;
  int label_ = -1;
  int caption_ = -1;
};

}  // namespace

std::unique_ptr<SampleSource> open_csv(const std::string& input, const SourceOptions& options) {
  return std::make_unique<CsvSource>(input, options);
}

}  // namespace cleave::data
