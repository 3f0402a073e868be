#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/checkpoint/checkpoint.h"
#include "cleave/checkpoint/safetensors.h"

namespace cleave::checkpoint {

inline constexpr std::string_view kConfigFile = "config.json";
inline constexpr std::string_view kIndexFile = "model.safetensors.index.json";

/// Whether a directory looks like one that Hugging Face's tools read and write.
bool is_hugging_face(const std::filesystem::path& directory);

/// The weights of a checkpoint: model.safetensors, or shards with an index. Slices are read where
/// they are wanted; nobody holds the whole.
class WeightFiles {
 public:
  /// Throws UserError, naming the file, if there are no weights, the index names a shard or a
  /// tensor that is not there, or a header does not hold together. Never opens a pickle.
  explicit WeightFiles(const std::filesystem::path& directory);

  const std::vector<SafetensorsFile>& files() const { return files_; }
  /// The tensors of all files, one file after another; their offsets are those in their files.
  const SafetensorsHeader& header() const { return header_; }

  /// Throws UserError naming the first parameter that is missing or has another shape, or the first
  /// tensor that the model does not have: it is of another architecture. Names may lack their first
  /// part, as in directories of models without a head. A head that the model takes from its
  /// embedding must have its elements.
  void expect(const std::vector<Parameter>& parameters) const;

  /// Elements `first` … of a parameter, from f32, bf16 or f16.
  void read_weight(std::string_view parameter, std::int64_t first, std::span<float> elements) const;

 private:
  struct Place {
    std::size_t file = 0;
    const TensorEntry* tensor = nullptr;
  };

  void add_file(const std::filesystem::path& path);
  void expect_tied(const Place& head, const std::set<const TensorEntry*>& wanted) const;
  void check_index(const std::map<std::string, std::string>& index) const;
  /// Null if there is none of that name, with the prefix or without.
  const Place* find(std::string_view parameter) const;

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  SafetensorsHeader header_;
  std::map<std::string, Place, std::less<>> tensors_;
};

}  // namespace cleave::checkpoint
