#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "cleave/base/file.h"
#include "cleave/checkpoint/checkpoint.h"

namespace cleave::checkpoint {

// Saving, by any number of devices that see one file system:
//
//   one   prepare_checkpoint
//         --- barrier ---
//   all   CheckpointWriter, write…, finish
//         --- barrier ---
//   one   commit_checkpoint
//
// Whoever fails removes the draft and throws IoError; the checkpoints before it are untouched. A
// crash leaves a draft, which clean_checkpoints removes at the next start.

/// Makes the files in their full size, so that a full disk shows here, before anyone writes.
void prepare_checkpoint(const std::filesystem::path& root, std::int64_t step,
                        const CheckpointLayout& layout);

/// Writes one device's slices to their final places, and keeps count of what it wrote.
class CheckpointWriter {
 public:
  /// `index` tells the writers of one checkpoint apart: 0, 1, … The layout is borrowed.
  CheckpointWriter(const std::filesystem::path& root, std::int64_t step,
                   const CheckpointLayout& layout, int index);

  /// Elements `first` … of one parameter's weight or slot. Every element of the checkpoint must
  /// be written exactly once, by anyone; commit_checkpoint counts them.
  void write(Part part, std::size_t parameter, std::int64_t first, std::span<const float> elements);

  /// Brings everything to the disk and leaves the sums for commit_checkpoint to find.
  void finish();

 private:
  friend void commit_checkpoint(const std::filesystem::path&, const CheckpointLayout&,
                                const CheckpointState&, int, std::int64_t);

  struct Tally {
    std::int64_t elements = 0;
    std::uint64_t sum = 0;
  };

  static std::vector<Tally> read_tallies(const std::filesystem::path& draft, std::size_t count,
                                         int writers);

  std::filesystem::path draft_;
  const CheckpointLayout* layout_;
  int index_;
  File model_;
  File optimizer_;
  std::vector<Tally> tallies_;  // [tensor]
};

/// Adds a file for other tools to the draft; commit_checkpoint() lists it in the manifest.
void add_file(const std::filesystem::path& root, std::int64_t step, std::string_view name,
              std::string_view text);

/// Checks that `writers` writers together wrote everything, adds state and manifest, publishes the
/// checkpoint and prunes old ones to `keep`.
void commit_checkpoint(const std::filesystem::path& root, const CheckpointLayout& layout,
                       const CheckpointState& state, int writers, std::int64_t keep);

}  // namespace cleave::checkpoint
