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
#include "cleave/train/save/adapters.h"
#include "cleave/train/save/model_files.h"
#include "cleave/train/save/own_part.h"
#include "cleave/train/save/same_run.h"
#include "cleave/train/save/saving.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

fs::path root_of(const Config& config) {
  return fs::path(config.train.out) / "checkpoints";
}

/// Something of an earlier run, or of somebody else, is in train.out. What the other devices of a
/// server keep there they look at themselves, perhaps earlier than the first one.
bool is_occupied(const fs::path& out) {
  std::error_code error;
  const fs::file_status status = fs::status(out, error);
  if (!fs::exists(status)) return false;
  require(fs::is_directory(status), "train.out \"", out.string(),
          "\" is a file; choose a directory, or a name that is not taken");
  for (const fs::directory_entry& entry : fs::directory_iterator(out, error)) {
    const std::string name = entry.path().filename().string();
    if (name != kLockFile && !is_server_directory(name)) return true;
  }
  return static_cast<bool>(error);
}

/// What --init-from or else model.from says. Where a run goes on, it has its weights.
std::string weights_from(const Config& config, const StartOptions& options, const Start& start) {
  require(options.init_from.empty() || config.from.empty(),
          "--init-from and model.from both say which weights to begin with; leave one out");
  if (!start.resume_from.empty()) return "";
  return options.init_from.empty() ? config.from : options.init_from;
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
  for (const char* ours : {"checkpoints", "config.toml", "log.jsonl", "run.html", "secret", "tb"}) {
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
    if (!config.from.empty()) copy_image_companions(config.from, out);
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
