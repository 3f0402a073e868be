#include "cleave/train/save/start.h"

#include <algorithm>
#include <vector>

#include "cleave/base/check.h"
#include "cleave/base/file.h"
#include "cleave/checkpoint/directory.h"
#include "cleave/checkpoint/reader.h"
#include "cleave/comm/together.h"
#include "cleave/data/tokenizer/byte_level_json.h"
#include "cleave/data/tokenizer/tokenizer.h"
#include "cleave/train/config/config_schema.h"
#include "cleave/train/save/adapters.h"
#include "cleave/train/save/model_files.h"
#include "cleave/train/save/saving.h"
#include "cleave/train/step/learning_rate.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

fs::path root_of(const Config& config) {
  return fs::path(config.train.out) / "checkpoints";
}

/// Something of an earlier run, or of somebody else, is in train.out.
bool is_occupied(const fs::path& out) {
  std::error_code error;
  const fs::file_status status = fs::status(out, error);
  if (!fs::exists(status)) return false;
  require(fs::is_directory(status), "train.out \"", out.string(),
          "\" is a file; choose a directory, or a name that is not taken");
  for (const fs::directory_entry& entry : fs::directory_iterator(out, error)) {
    if (entry.path().filename() != kLockFile) return true;
  }
  return static_cast<bool>(error);
}

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

void check_sound(const fs::path& checkpoint, checkpoint::Load what) {
  if (checkpoint::CheckpointReader::is_foreign(checkpoint)) return;  // it has no checksums
  const std::vector<std::string> problems = checkpoint::verify_checkpoint(checkpoint, what);
  if (problems.empty()) return;
  const std::string more =
      problems.size() == 1 ? "" : detail::concat(" (and ", problems.size() - 1, " more)");
  const std::string_view flag = what == checkpoint::Load::Everything ? "--resume" : "--init-from";
  throw UserError(problems.front() + more + others_in(checkpoint, flag));
}

/// Which data clients have seen, what they keep and what was spent of ε follow from these keys and
/// the number of rounds.
bool is_of_rounds(std::string_view key) {
  constexpr std::string_view kKeys[] = {"edge.outer",  "edge.keep_slots", "edge.clients",
                                        "edge.sample", "edge.drop",       "edge.codec",
                                        "edge.clip",   "edge.noise"};
  return std::ranges::find(kKeys, key) != std::end(kKeys);
}

/// Shapes alone do not tell models apart: the number of heads, for one, does not show in them. And
/// slots of one optimizer are no use to another.
void check_same_model(const Config& config, const checkpoint::CheckpointReader& checkpoint) {
  const Config saved = config_of(checkpoint);
  for (const Key& key : config_keys()) {
    const bool fixed = key.section() == "model" || key.section() == "lora" ||
                       key.name == "train.optimizer" || is_of_rounds(key.name);
    if (!fixed || key.name == "model.preset" || key.name == "model.from" || key.name == "lora.from")
      continue;
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

/// Positions that a model has learned are as many as its context is long, which follows
/// train.sequence where it is not given.
void check_same_context(const Config& config, const checkpoint::CheckpointReader& checkpoint) {
  const ModelShape saved = config_of(checkpoint).model;
  if (saved.kind != config.model.kind || !saved.kind->learns_positions) return;
  require(saved.context == config.model.context, "model.context is ", config.model.context,
          ", but ", checkpoint.path().string(), " was trained with ", saved.context,
          "; begin with --set model.context=", saved.context);
}

/// Shapes do not show how positions turn or what a token sees, so that weights could become another
/// model without anyone noticing.
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

/// What --init-from or else model.from says.
std::string weights_from(const Config& config, const StartOptions& options, const Start& start) {
  require(options.init_from.empty() || config.from.empty(),
          "--init-from and model.from both say which weights to begin with; leave one out");
  return !options.init_from.empty() || !start.resume_from.empty() ? options.init_from : config.from;
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

/// "train.lr 0.001 (was 0.01), train.batch 8 (was 4)": without which the weights would be those of
/// an undisturbed run.
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

fs::path find_resumed(const StartOptions& options, const fs::path& out) {
  if (options.existing != Existing::Resume || options.in_memory != InMemory::Nothing) return {};
  if (!options.resume_from.empty()) return checkpoint::find_checkpoint(options.resume_from);
  // A run that was killed before it saved anything begins again.
  return checkpoint::latest_checkpoint(out / "checkpoints").value_or(fs::path());
}

bool is_below(const fs::path& path, const fs::path& directory) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(path, error);
  const fs::path outer = fs::weakly_canonical(directory, error);
  return std::ranges::mismatch(outer, inner).in1 == outer.end();
}

Start find_start(const Config& config, const StartOptions& options,
                 const checkpoint::CheckpointLayout& layout) {
  const fs::path out = config.train.out;
  check_out(config, options);
  if (options.in_memory == InMemory::Everything) return {};
  Start start{.resume_from = find_resumed(options, out)};
  if (!start.resume_from.empty()) {
    check_sound(start.resume_from, checkpoint::Load::Everything);
    const checkpoint::CheckpointReader reader(start.resume_from);
    check_same_model(config, reader);
    reader.expect(layout.parameters());
    start.finished = reader.state().step >= config.train.steps;
    start.changed = changed_since(reader, config, options.data);
  }
  if (const std::string from = weights_from(config, options, start); !from.empty()) {
    start.init_from = checkpoint::find_checkpoint(from);
    require(options.existing != Existing::Overwrite || !is_below(start.init_from, out),
            "--overwrite would remove ", start.init_from.string(), ", which ",
            options.init_from.empty() ? "model.from" : "--init-from",
            " needs; choose another train.out");
    check_sound(start.init_from, checkpoint::Load::WeightsOnly);
    const checkpoint::CheckpointReader reader(start.init_from, checkpoint::Load::WeightsOnly);
    check_same_context(config, reader);
    reader.expect(layout_in(reader, layout).parameters());
    check_same_computation(config, reader);
  }
  if (start.resume_from.empty()) check_adapters(config, layout);
  return start;
}

void remove_old(const fs::path& out) {
  for (const char* ours : {"checkpoints", "config.toml", "log.jsonl", "run.html", "tb"}) {
    std::error_code error;
    fs::remove_all(out / ours, error);
    if (error) throw IoError("cannot remove " + (out / ours).string() + ": " + error.message());
  }
}

/// So that what was trained can be read without what it was trained from.
void copy_tokenizer(const Config& config, const fs::path& out) {
  const std::string& name = config.data.tokenizer;
  if (name.empty() || name == "bytes") {  // another run's would be taken for this one's
    for (const char* old : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json"})
      fs::remove(out / old);
    if (reads_bytes(config))
      write_text_atomically(out / "tokenizer.json", data::tokenizer::bytes_json());
    return;
  }
  const fs::path file = fs::is_directory(name) ? data::find_tokenizer(name) : fs::path(name);
  const fs::path kept = out / ("tokenizer" + file.extension().string());
  std::error_code same;
  if (fs::equivalent(file, kept, same)) return;
  write_text_atomically(kept, read_text(file));
  copy_companions(file.parent_path(), out);
}

/// Nobody else writes to train.out from here on.
OutLock make_out(const Config& config, Existing existing) {
  const fs::path out = config.train.out;
  const bool was_there = fs::exists(out);
  std::error_code error;
  const auto make = [&](const fs::path& directory) {
    fs::create_directories(directory, error);
    if (!error) return;
    throw IoError(detail::concat("cannot make ", root_of(config).string(), ": ", error.message(),
                                 "; choose a train.out that you may write to"));
  };
  make(out);
  OutLock lock = OutLock::take(out);
  try {
    if (was_there && existing == Existing::Overwrite) remove_old(out);
    make(root_of(config));
    checkpoint::clean_checkpoints(root_of(config));
    write_text_atomically(out / "config.toml", to_toml(config));
    copy_tokenizer(config, out);
  } catch (...) {
    if (!was_there) fs::remove_all(out, error);
    throw;
  }
  return lock;
}

}  // namespace

void check_out(const Config& config, const StartOptions& options) {
  const fs::path out = config.train.out;
  OutLock::require_free(out);
  require(!is_occupied(out) || options.existing != Existing::Refuse, "train.out \"", out.string(),
          "\" exists already; choose another directory, or pass --resume or --overwrite");
}

std::string saved_grid(const Config& config, const StartOptions& options) {
  try {
    const fs::path resumed = find_resumed(options, config.train.out);
    if (resumed.empty()) return "";
    const checkpoint::CheckpointState state =
        checkpoint::read_state(resumed / checkpoint::kStateFile);
    return grid_of(parse_config(state.config, (resumed / checkpoint::kStateFile).string()));
  } catch (const UserError&) {
    return "";  // prepare_start() says what is wrong, and what would help
  }
}

std::int64_t saved_step(const Config& config, const StartOptions& options) {
  try {
    const fs::path resumed = find_resumed(options, config.train.out);
    return resumed.empty() ? -1 : checkpoint::read_state(resumed / checkpoint::kStateFile).step;
  } catch (const UserError&) {
    return -1;  // what is in memory is better than what cannot be read
  }
}

Start prepare_start(const Config& config, const StartOptions& options,
                    const checkpoint::CheckpointLayout& layout, comm::Communicator& world) {
  Start start;
  comm::together(world, [&] {
    if (world.rank() != 0) return;
    start = find_start(config, options, layout);
    if (!start.finished) start.lock = make_out(config, options.existing);
  });
  // The others are told rather than look: a shared file system may show them older names.
  std::string resume_from = start.resume_from.string();
  std::string init_from = start.init_from.string();
  std::string finished = start.finished ? "finished" : "";
  for (std::string* text : {&resume_from, &init_from, &finished}) comm::broadcast(world, *text);
  return {resume_from, init_from, !finished.empty(), std::move(start.changed),
          std::move(start.lock)};
}

}  // namespace cleave::train
