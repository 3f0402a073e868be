#include "cleave/checkpoint/writer.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"
#include "cleave/base/tensor_sum.h"
#include "cleave/checkpoint/directory.h"
#include "cleave/checkpoint/manifest.h"

namespace cleave::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Runs `act`; if it throws, nobody can finish this draft any more.
template <class Act>
auto or_remove(const fs::path& draft, Act act) {
  try {
    return act();
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(draft, ignored);
    throw;
  }
}

void prepare_file(const fs::path& path, const SafetensorsHeader& header) {
  File file = File::open_or_create(path);
  file.reserve(header.file_bytes);
  file.write(std::as_bytes(std::span(header.text)), 0);
}

fs::path tally_path(const fs::path& draft, int index) {
  return draft / ("tally-" + std::to_string(index));
}

/// Writes a new file to the disk, and returns what the manifest says of it.
Manifest::Entry write_plain(const fs::path& draft, std::string_view name, std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  File file = File::open_or_create(draft / name);
  file.truncate(0);
  file.write(bytes, 0);
  file.sync();
  return {
      .file = std::string(name), .bytes = std::ssize(text), .head = hash_of(bytes), .tensors = {}};
}

Manifest::Entry describe(std::string_view name, const SafetensorsHeader& header) {
  return {.file = std::string(name),
          .bytes = header.file_bytes,
          .head = hash_of(std::as_bytes(std::span(header.text))),
          .tensors = {}};
}

/// What add_file has put there, by name.
std::vector<Manifest::Entry> describe_added(const fs::path& draft) {
  std::vector<Manifest::Entry> added;
  for (const auto& file : fs::directory_iterator(draft)) {
    const std::string name = file.path().filename().string();
    if (!file.is_regular_file() || name == kModelFile || name == kOptimizerFile) continue;
    const std::string text = read_text(file.path());
    added.push_back({.file = name,
                     .bytes = std::ssize(text),
                     .head = hash_of(std::as_bytes(std::span(text))),
                     .tensors = {}});
  }
  std::ranges::sort(added, {}, &Manifest::Entry::file);
  return added;
}

}  // namespace

void prepare_checkpoint(const fs::path& root, std::int64_t step, const CheckpointLayout& layout) {
  const fs::path draft = draft_path(root, step);
  std::error_code error;
  fs::remove_all(draft, error);
  fs::create_directories(draft, error);
  if (error) {
    throw IoError(detail::concat("cannot create ", draft.string(), ": ", error.message(),
                                 "; choose a train.out that you may write to"));
  }
  or_remove(draft, [&] {
    prepare_file(draft / kModelFile, layout.model());
    prepare_file(draft / kOptimizerFile, layout.optimizer());
  });
}

CheckpointWriter::CheckpointWriter(const fs::path& root, std::int64_t step,
                                   const CheckpointLayout& layout, int index)
    : draft_(draft_path(root, step)),
      layout_(&layout),
      index_(index),
      model_(File::open_or_create(draft_ / kModelFile)),
      optimizer_(File::open_or_create(draft_ / kOptimizerFile)),
      tallies_(layout.tensors()) {}

void CheckpointWriter::write(Part part, std::size_t parameter, std::int64_t first,
                             std::span<const float> elements) {
  const std::size_t tensor = layout_->index(part, parameter);
  const TensorEntry& entry = layout_->entry(tensor);
  CLEAVE_CHECK(first >= 0 && first + std::ssize(elements) <= entry.shape.elements(), entry.name,
               ": ", first, " + ", elements.size());
  const auto bytes = std::as_bytes(elements);
  File& file = part == Part::Weight ? model_ : optimizer_;
  or_remove(draft_, [&] { file.write(bytes, entry.offset + first * size_of(entry.type)); });

  Tally& tally = tallies_[tensor];
  tally.elements += std::ssize(elements);
  tally.sum += tensor_sum(bytes, first);
}

void CheckpointWriter::finish() {
  or_remove(draft_, [&] {
    model_.sync();
    optimizer_.sync();
    File file = File::open_or_create(tally_path(draft_, index_));
    file.write(std::as_bytes(std::span(tallies_)), 0);
  });
}

std::vector<CheckpointWriter::Tally> CheckpointWriter::read_tallies(const fs::path& draft,
                                                                    std::size_t count,
                                                                    int writers) {
  std::vector<Tally> total(count);
  std::vector<Tally> part(count);
  for (int writer = 0; writer < writers; ++writer) {
    const fs::path path = tally_path(draft, writer);
    File::open(path).read(std::as_writable_bytes(std::span(part)), 0);
    for (std::size_t i = 0; i < count; ++i) {
      total[i].elements += part[i].elements;
      total[i].sum += part[i].sum;
    }
    fs::remove(path);
  }
  return total;
}

void add_file(const fs::path& root, std::int64_t step, std::string_view name,
              std::string_view text) {
  const fs::path draft = draft_path(root, step);
  or_remove(draft, [&] { write_plain(draft, name, text); });
}

void commit_checkpoint(const fs::path& root, const CheckpointLayout& layout,
                       const CheckpointState& state, int writers, std::int64_t keep) {
  const fs::path draft = draft_path(root, state.step);
  or_remove(draft, [&] {
    const auto tallies = CheckpointWriter::read_tallies(draft, layout.tensors(), writers);
    Manifest manifest{.step = state.step,
                      .files = {describe(kModelFile, layout.model()),
                                describe(kOptimizerFile, layout.optimizer())}};
    for (std::size_t t = 0; t < layout.tensors(); ++t) {
      const auto [elements, sum] = tallies[t];
      const TensorEntry& entry = layout.entry(t);
      CLEAVE_CHECK(elements == entry.shape.elements(), entry.name, ": ", elements,
                   " elements were written");
      const bool weight = t < layout.model().tensors.size();
      manifest.files[weight ? 0 : 1].tensors.push_back({entry.name, sum});
    }
    std::ranges::move(describe_added(draft), std::back_inserter(manifest.files));
    manifest.files.push_back(write_plain(draft, kStateFile, to_json(state)));
    write_plain(draft, kManifestFile, to_json(manifest));
    publish_checkpoint(root, state.step);
  });
  prune_checkpoints(root, keep, state.step);
}

}  // namespace cleave::checkpoint
