#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace cleave::checkpoint {

// Names and life of the directories below `root` (out/checkpoints). A directory gets its final name
// only when it is complete, and loses it before anything in it is removed: whatever is called
// step-… is whole.

std::filesystem::path checkpoint_path(const std::filesystem::path& root, std::int64_t step);

/// Where the checkpoint of `step` is put together.
std::filesystem::path draft_path(const std::filesystem::path& root, std::int64_t step);

/// Steps of the complete ones, oldest first.
std::vector<std::int64_t> list_checkpoints(const std::filesystem::path& root);

/// What `latest` points to; if that is gone, the highest step; nothing if there is none.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& root);

/// The checkpoint that a user means by `path`: itself, which may be a Hugging Face directory, the
/// latest in a directory of checkpoints, or the latest of a run's `out`. Throws UserError if there
/// is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

/// Removes what a crash left behind. Throws UserError where something else has the name of the link
/// to the latest. For one process, before any other starts to save.
void clean_checkpoints(const std::filesystem::path& root);

/// What was begun and nobody will finish, as far as it can be removed.
void remove_drafts(const std::filesystem::path& root);

/// Gives the complete draft of `step` its name and lets `latest` point to it, each in one instant.
void publish_checkpoint(const std::filesystem::path& root, std::int64_t step);

/// Removes the oldest until `keep` are left; never `just_saved`.
void prune_checkpoints(const std::filesystem::path& root, std::int64_t keep,
                       std::int64_t just_saved);

}  // namespace cleave::checkpoint
