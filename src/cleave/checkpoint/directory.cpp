#include "cleave/checkpoint/directory.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/checkpoint/checkpoint.h"
#include "cleave/checkpoint/weight_files.h"

namespace cleave::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kDraftPrefix = ".tmp-";
constexpr const char* kLatest = "latest";

std::string step_name(std::int64_t step) {
  return fmt::format("{}{:08}", kPrefix, step);
}

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || at != end || step < 0) return std::nullopt;
  return step;
}

[[noreturn]] void fail(std::string_view action, const fs::path& path, int error) {
  throw IoError(detail::concat("cannot ", action, " ", path.string(), ": ", std::strerror(error)));
}

void rename_or_fail(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail("create", to, errno);
}

/// Takes the name away first, so that a crash half way leaves no torso under a good name.
void remove_under_draft_name(const fs::path& root, const std::string& name) {
  const fs::path doomed = root / (std::string(kDraftPrefix) + "old-" + name);
  std::error_code ignored;
  fs::remove_all(doomed, ignored);
  rename_or_fail(root / name, doomed);
  fs::remove_all(doomed, ignored);  // what stays is cleaned at the next start
}

bool is_checkpoint(const fs::path& path) {
  std::error_code error;
  return fs::exists(path / kManifestFile, error) && !error;
}

bool exists_as_directory(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error) && !error;
}

}  // namespace

fs::path checkpoint_path(const fs::path& root, std::int64_t step) {
  return root / step_name(step);
}

fs::path draft_path(const fs::path& root, std::int64_t step) {
  return root / (std::string(kDraftPrefix) + step_name(step));
}

std::vector<std::int64_t> list_checkpoints(const fs::path& root) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, error)) {
    if (const auto step = step_of(entry.path().filename())) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::optional<fs::path> latest_checkpoint(const fs::path& root) {
  std::error_code error;
  const fs::path target = fs::read_symlink(root / kLatest, error);
  // Only what we would write ourselves: a link elsewhere may lead in a circle, or to another run.
  if (!error && step_of(target.string()) && is_checkpoint(root / target)) return root / target;
  const auto steps = list_checkpoints(root);
  if (steps.empty()) return std::nullopt;
  return checkpoint_path(root, steps.back());
}

fs::path find_checkpoint(const fs::path& path) {
  // The name counts too: a checkpoint that lost its manifest is damaged, not absent.
  const fs::path name = path.has_filename() ? path.filename() : path.parent_path().filename();
  if (is_checkpoint(path) || (step_of(name) && exists_as_directory(path))) return path;
  if (is_hugging_face(path)) return path;
  for (const fs::path& root : {path, path / "checkpoints"}) {
    if (const auto latest = latest_checkpoint(root)) return *latest;
  }
  throw UserError(detail::concat("there is no checkpoint in ", path.string(),
                                 "; give a step-… directory, the out directory of a run, or a "
                                 "Hugging Face directory"));
}

namespace {

std::vector<fs::path> drafts_in(const fs::path& root) {
  std::error_code error;
  std::vector<fs::path> drafts;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, error)) {
    if (entry.path().filename().string().starts_with(kDraftPrefix)) drafts.push_back(entry.path());
  }
  return drafts;
}

}  // namespace

void remove_drafts(const fs::path& root) {
  std::error_code ignored;
  for (const fs::path& path : drafts_in(root)) fs::remove_all(path, ignored);
}

void clean_checkpoints(const fs::path& root) {
  std::error_code error;
  const fs::file_status latest = fs::symlink_status(root / kLatest, error);
  require(
      !fs::exists(latest) || fs::is_symlink(latest), (root / kLatest).string(),
      " is not the link to the latest checkpoint that cleave keeps there; rename it or remove it");
  for (const fs::path& path : drafts_in(root)) {
    fs::remove_all(path, error);
    if (error) fail("remove", path, error.value());
  }
}

void publish_checkpoint(const fs::path& root, std::int64_t step) {
  const fs::path draft = draft_path(root, step);
  const fs::path final = checkpoint_path(root, step);
  sync_directory(draft);
  if (fs::exists(final)) {
    // The same step again: exchange both names in one instant, then remove the old one.
    if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) != 0) {
      remove_under_draft_name(root, step_name(step));
      rename_or_fail(draft, final);
    }
    std::error_code ignored;
    fs::remove_all(draft, ignored);
  } else {
    rename_or_fail(draft, final);
  }
  sync_directory(root);

  const fs::path link = root / (std::string(kDraftPrefix) + kLatest);
  std::error_code error;
  fs::remove(link, error);
  fs::create_symlink(step_name(step), link, error);
  if (error) fail("create", link, error.value());
  try {
    rename_or_fail(link, root / kLatest);
  } catch (...) {
    fs::remove(link, error);
    throw;
  }
  sync_directory(root);
}

void prune_checkpoints(const fs::path& root, std::int64_t keep, std::int64_t just_saved) {
  std::vector<std::int64_t> others = list_checkpoints(root);
  std::erase(others, just_saved);
  for (std::int64_t left = std::ssize(others); left > keep - 1; --left) {
    remove_under_draft_name(root, step_name(others[std::ssize(others) - left]));
  }
}

}  // namespace cleave::checkpoint
