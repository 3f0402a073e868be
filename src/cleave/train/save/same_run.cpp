#include "cleave/train/save/same_run.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/checkpoint/directory.h"
#include "cleave/train/config/config_schema.h"
#include "cleave/train/save/saving.h"
#include "cleave/train/step/learning_rate.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

/// What an error about a checkpoint may add: the one before it, to be passed with `flag`.
std::string others_in(const fs::path& damaged, std::string_view flag) {
  std::vector<std::int64_t> steps = checkpoint::list_checkpoints(damaged.parent_path());
  std::erase_if(steps, [&](std::int64_t step) {
    return checkpoint::checkpoint_path(damaged.parent_path(), step).filename() ==
           damaged.filename();
  });
  if (steps.empty()) return "; there is no other checkpoint beside it";
  return detail::concat("; to go on from an older one pass ", flag, "=",
                        checkpoint::checkpoint_path(damaged.parent_path(), steps.back()).string());
}

/// Where clients' updates are averaged: which data they have seen, what they keep and what was
/// spent of ε follow from these keys and the number of rounds.
bool is_of_rounds(std::string_view key) {
  constexpr std::string_view kKeys[] = {
      "edge.outer",    "edge.keep_slots", "edge.clients",      "edge.sample",
      "edge.drop",     "edge.codec",      "edge.clip",         "edge.noise",
      "edge.in_order", "edge.sync_every", "edge.partition",    "edge.alpha",
      "edge.labels",   "edge.fragments",  "edge.example_clip", "edge.example_noise",
      "train.batch",   "train.sequence"};
  return std::ranges::find(kKeys, key) != std::end(kKeys);
}

/// Whether runs that go on from a checkpoint of `saved` need the key as it was.
bool is_fixed(std::string_view key, const Config& saved) {
  if (key == "model.preset" || key == "model.from" || key == "lora.from") return false;
  return key.starts_with("model.") || key.starts_with("lora.") || key == "train.optimizer" ||
         key == "edge.sync_every" || key == "edge.codec" ||
         (saved.edge.averages() && is_of_rounds(key));
}

/// Whether a key may change the weights that come out. Where and how often a run saves does not,
/// and devices and layout do not by what docs/numerics.md promises; the number of steps has a
/// sentence of its own.
bool changes_weights(std::string_view key) {
  constexpr std::string_view kOthers[] = {
      "train.steps", "train.eval_every", "train.checkpoint_every", "train.keep",
      "train.out",   "train.elastic",    "train.copies",           "edge.central"};
  return !key.starts_with("devices.") && !key.starts_with("parallel.") &&
         !key.starts_with("model.") && !key.starts_with("lora.") &&
         std::ranges::find(kOthers, key) == std::end(kOthers);
}

/// The rate of the step that comes next follows from the number of steps.
std::string other_rate(const TrainConfig& ours, const TrainConfig& saved, std::int64_t step) {
  if (ours.steps == saved.steps) return "";
  const double rate = learning_rate(ours, step);
  const double before = learning_rate(saved, std::min(step, saved.steps - 1));
  return detail::concat("train.steps ", ours.steps, " (was ", saved.steps,
                        "): the learning rate follows the new length, ", rate, " at step ",
                        step + 1, " instead of ", before, "; ");
}

}  // namespace

void check_sound(const fs::path& checkpoint, checkpoint::Load what) {
  if (checkpoint::CheckpointReader::is_foreign(checkpoint)) return;  // it has no checksums
  const std::vector<std::string> problems = checkpoint::verify_checkpoint(checkpoint, what);
  if (problems.empty()) return;
  const std::string more =
      problems.size() == 1 ? "" : detail::concat(" (and ", problems.size() - 1, " more)");
  const std::string_view flag = what == checkpoint::Load::Everything ? "--resume" : "--init-from";
  throw UserError(problems.front() + more + others_in(checkpoint, flag));
}

void check_same_model(const Config& config, const checkpoint::CheckpointReader& checkpoint) {
  const Config saved = config_of(checkpoint);
  for (const Key& key : config_keys()) {
    if (!is_fixed(key.name, saved)) continue;
    const auto ours = key.get(config);
    const auto theirs = key.get(saved);
    if (!ours && !theirs) continue;
    const auto text = [](const auto& value) { return value ? to_toml(*value) : "not given"; };
    const std::string remedy =
        theirs ? detail::concat("with --set ", key.name, "=", to_toml(*theirs)) : "without it";
    require(text(ours) == text(theirs), key.name, " is ", text(ours), ", but ",
            checkpoint.path().string(), " was trained ",
            theirs ? "with " + to_toml(*theirs) : "without it", "; resume ", remedy,
            ", or begin another run in another train.out");
  }
}

void check_same_context(const Config& config, const checkpoint::CheckpointReader& checkpoint) {
  const ModelShape saved = config_of(checkpoint).model;
  if (saved.kind != config.model.kind || !saved.kind->learns_positions) return;
  require(saved.context == config.model.context, "model.context is ", config.model.context,
          ", but ", checkpoint.path().string(), " was trained with ", saved.context,
          "; begin with --set model.context=", saved.context);
}

void check_same_computation(const Config& config, const checkpoint::CheckpointReader& checkpoint) {
  Config saved = config;
  saved.model = config_of(checkpoint).model;
  saved.model.context = config.model.context;
  for (const Key& key : config_keys()) {
    const auto ours = key.get(config);
    const auto theirs = key.get(saved);
    const auto text = [](const auto& value) { return value ? to_toml(*value) : "not given"; };
    require(text(ours) == text(theirs), key.name, " is ", text(ours), ", but ",
            checkpoint.path().string(), " has a model with ", text(theirs), "; begin ",
            theirs ? detail::concat("with --set ", key.name, "=", to_toml(*theirs)) : "without it");
  }
}

std::string changed_since(const checkpoint::CheckpointReader& checkpoint, const Config& config,
                          const std::string& data) {
  const Config saved = config_of(checkpoint);
  const checkpoint::CheckpointState& state = checkpoint.state();
  std::string text = other_rate(config.train, saved.train, state.step);
  for (const Key& key : config_keys()) {
    if (!changes_weights(key.name)) continue;
    const auto ours = key.get(config);
    const auto theirs = key.get(saved);
    if (!ours || !theirs || to_toml(*ours) == to_toml(*theirs)) continue;
    text += detail::concat(key.name, " ", to_toml(*ours), " (was ", to_toml(*theirs), "), ");
  }
  if (!data.empty() && !state.data.empty() && data != state.data) text += "what is in the data, ";
  return text.substr(0, text.size() - std::min<std::size_t>(text.size(), 2));
}

}  // namespace cleave::train
