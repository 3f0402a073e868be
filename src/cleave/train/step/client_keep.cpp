#include "cleave/train/step/client_keep.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <span>

#include "cleave/base/check.h"
#include "cleave/base/codec.h"
#include "cleave/checkpoint/safetensors.h"
#include "cleave/train/step/round_slots.h"
#include "cleave/train/step/slot_elements.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using checkpoint::TensorEntry;

constexpr std::string_view kKeptPrefix = "round-";

}  // namespace

ClientKeep::ClientKeep(const Config& config, const RoundExchange::Tensors& tensors)
    : tensors_(tensors),
      keeps_slots_(config.edge.keep_slots),
      keeps_error_(find_codec(config.edge.codec)->keeps_error),
      keeps_weights_(config.edge.fragments > 1),
      directory_(fs::path(config.train.out) / "kept") {}

bool ClientKeep::lasts(const engine::SlotState& slot) const {
  return (keeps_slots_ && is_inner(slot.name)) || (keeps_error_ && slot.name == kOwnErrorSlot) ||
         (keeps_weights_ && slot.name == kOwnWeightSlot);
}

fs::path ClientKeep::path_of(std::int64_t turns) const {
  return directory_ / detail::concat(kKeptPrefix, turns, ".safetensors");
}

void ClientKeep::forget_before(std::int64_t turns) const {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, ignored)) {
    const std::string name = entry.path().filename().string();
    std::int64_t number = 0;
    if (!name.starts_with(kKeptPrefix)) continue;
    std::from_chars(name.data() + kKeptPrefix.size(), name.data() + name.size(), number);
    if (number < turns) fs::remove(entry.path(), ignored);
  }
}

void ClientKeep::load(std::int64_t turns) {
  if (!keeps_slots_ && !keeps_error_ && !keeps_weights_) return;
  if (turns == 0) {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
    for (const engine::TensorState* tensor : tensors_)
      for (const engine::SlotState& slot : tensor->slots)
        if (lasts(slot)) clear_elements(*tensor, slot.values);
    return;
  }
  const fs::path path = path_of(turns);
  require(fs::exists(path), "this client has taken part in ", turns,
          " rounds, and what it kept of the last one is not in ", directory_.string(),
          "; join with the --out that it had, or begin the run again with --overwrite");
  const checkpoint::SafetensorsFile file(path);
  for (const engine::TensorState* tensor : tensors_) {
    for (const engine::SlotState& slot : tensor->slots) {
      if (!lasts(slot)) continue;
      const TensorEntry* entry = file.find(detail::concat(tensor->name, ".", slot.name));
      require(entry != nullptr && entry->shape.elements() == tensor->elements(), path.string(),
              " does not have ", tensor->name, ".", slot.name,
              " as this run has it; it is of another run, so join with an --out of its own");
      file.read(*entry, 0, whole_elements(*tensor, slot.values));
    }
  }
}

void ClientKeep::save(std::int64_t turns) {
  if (!keeps_slots_ && !keeps_error_ && !keeps_weights_) return;
  std::vector<TensorEntry> entries;
  std::vector<std::span<const float>> values;
  for (const engine::TensorState* tensor : tensors_) {
    for (const engine::SlotState& slot : tensor->slots) {
      if (!lasts(slot)) continue;
      entries.push_back(
          {.name = detail::concat(tensor->name, ".", slot.name), .shape = {tensor->elements()}});
      values.push_back(whole_elements(*tensor, slot.values));
    }
  }
  const checkpoint::SafetensorsHeader header = checkpoint::lay_out(std::move(entries));
  fs::create_directories(directory_);
  const fs::path draft = directory_ / "draft";
  {
    File file = File::create(draft);
    file.reserve(header.file_bytes);
    file.write(std::as_bytes(std::span(header.text)), 0);
    for (std::size_t i = 0; i < values.size(); ++i)
      file.write(std::as_bytes(values[i]), header.tensors[i].offset);
    file.sync();
  }
  fs::rename(draft, path_of(turns));
  sync_directory(directory_);
  forget_before(turns - 1);
}

}  // namespace cleave::train
