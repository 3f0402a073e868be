#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/checkpoint/checkpoint.h"
#include "cleave/checkpoint/manifest.h"
#include "cleave/checkpoint/weight_files.h"

namespace cleave::checkpoint {

/// What of a checkpoint is wanted. WeightsOnly does without the optimizer's slots, whose file may
/// be missing or damaged.
enum class Load : std::uint8_t { Everything, WeightsOnly };

/// A checkpoint to load any slices from, whatever layout wrote it; or the weights of a Hugging Face
/// directory, which has neither a state nor a manifest.
class CheckpointReader {
 public:
  /// Throws UserError, naming file and tensor, if a piece is missing or cut off, a header does not
  /// hold together, or anything but a tensor is not as it was saved. Reads no tensors: for flipped
  /// bits there see `verify_checkpoint`.
  explicit CheckpointReader(const std::filesystem::path& directory, Load what = Load::Everything);

  Load what() const { return what_; }
  /// Whether another tool wrote it: only config.json says what it is.
  bool foreign() const { return foreign_; }
  static bool is_foreign(const std::filesystem::path& directory);
  const std::filesystem::path& path() const { return path_; }
  const CheckpointState& state() const { return state_; }
  const Manifest& manifest() const { return manifest_; }
  /// All tensors with weights, of all files.
  const SafetensorsHeader& model() const { return model_.header(); }

  /// Throws UserError naming the first parameter that is missing, has another shape, or is not in
  /// `parameters`: the checkpoint is of another architecture.
  void expect(const std::vector<Parameter>& parameters) const;

  /// Elements `first` … of a parameter's weight, or of one of its slots.
  void read_weight(std::string_view parameter, std::int64_t first, std::span<float> elements) const;
  void read_slot(std::string_view parameter, std::string_view slot, std::int64_t first,
                 std::span<float> elements) const;

 private:
  /// The file with the slots, which must have been asked for.
  const SafetensorsFile& slots() const;

  std::filesystem::path path_;
  Load what_;
  bool foreign_;
  Manifest manifest_;
  CheckpointState state_;
  WeightFiles model_;
  std::optional<SafetensorsFile> optimizer_;  ///< nothing with Load::WeightsOnly
};

/// Reads all of a checkpoint, or all that is wanted of it, and compares with its manifest: one
/// sentence, with file and tensor, for everything that is wrong; empty if it is sound.
std::vector<std::string> verify_checkpoint(const std::filesystem::path& directory,
                                           Load what = Load::Everything);

}  // namespace cleave::checkpoint
