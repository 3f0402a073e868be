#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/data/image/image.h"

namespace cleave::data {

inline constexpr std::int32_t kNoLabel = -1;

/// A sample as its files have it.
struct Sample {
  std::vector<Image> images;      ///< of any size
  std::int32_t label = kNoLabel;  ///< its class
  std::string text;               ///< a caption, or a conversation as JSON; UTF-8
};

/// Samples by number, from files of one kind.
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  virtual std::int64_t size() const = 0;

  /// What messages call a sample.
  virtual std::string name(std::int64_t index) const = 0;

  /// Several threads may read at once. Throws UserError, which names the sample.
  virtual Sample read(std::int64_t index) const = 0;

  /// Names of the classes that labels stand for; empty if labels are numbers or there are none.
  virtual std::vector<std::string> classes() const { return {}; }
};

struct SourceOptions {
  std::filesystem::path images = {};  ///< where relative paths of images begin; empty: the list's
};

/// A way in which samples lie in files; open_source() has a table of them.
struct SourceFormat {
  std::string name;
  bool (*is)(const std::string& input);
  std::unique_ptr<SampleSource> (*open)(const std::string& input, const SourceOptions& options);
};

/// Opens what `input` names: a directory with a folder per class, a .csv, an IDX file of images,
/// one or more tar files (a pattern, or a range such as {0000..0017}), or a .json or .jsonl list of
/// conversations. Throws UserError.
std::unique_ptr<SampleSource> open_source(const std::string& input, const SourceOptions& options);

// One function per format; each throws UserError.
std::unique_ptr<SampleSource> open_folder(const std::string& input, const SourceOptions& options);
std::unique_ptr<SampleSource> open_csv(const std::string& input, const SourceOptions& options);
std::unique_ptr<SampleSource> open_idx(const std::string& input, const SourceOptions& options);
std::unique_ptr<SampleSource> open_tar(const std::string& input, const SourceOptions& options);
std::unique_ptr<SampleSource> open_conversations(const std::string& input,
                                                 const SourceOptions& options);

/// Whether the name ends as those of images do.
bool is_image_name(const std::filesystem::path& path);

/// The class number that digits are, with nothing around them; nothing if they are none. One more
/// than a class number is a number too, that of the classes.
std::optional<std::int32_t> class_number(std::string_view digits);

/// Throws UserError that names the sample unless `text` is UTF-8.
void check_caption(const std::string& text, const std::string& sample);

}  // namespace cleave::data
