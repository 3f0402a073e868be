#include "cleave/train/loop/run.h"

#include <filesystem>

#include "cleave/base/check.h"
#include "cleave/base/hash.h"
#include "cleave/checkpoint/directory.h"
#include "cleave/comm/together.h"
#include "cleave/engine/run/device_kinds.h"
#include "cleave/train/loop/device_run.h"
#include "cleave/train/loop/emulated_run.h"
#include "cleave/train/loop/feature_cache.h"
#include "cleave/train/loop/forecast.h"
#include "cleave/train/loop/starting.h"
#include "cleave/train/loop/state_in_memory.h"
#include "cleave/train/save/own_part.h"
#include "cleave/train/save/saving.h"
#include "cleave/train/step/cuts.h"
#include "cleave/train/step/example_steps.h"
#include "cleave/train/step/numerics.h"
#include "cleave/train/step/owner_flow.h"
#include "cleave/train/step/round_server.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

/// Runs `work`; if it throws, nobody can finish what was being saved.
void or_remove_drafts(const Config& config, comm::Communicator& world,
                      const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    if (world.rank() == 0) checkpoint::remove_drafts(fs::path(config.train.out) / "checkpoints");
    throw;
  }
}

/// Text of somebody else's model is not made of bytes only because its tokenizer is missing.
void check_tokenizer(const Config& config, const data::Data& data) {
  const model::Family& kind = *config.model.kind;
  const bool texts = data.has_text() || (kind.reads_images && kind.reads_tokens);
  constexpr std::int64_t kBytes = 256;
  require(config.from.empty() || !config.data.tokenizer.empty() || !texts ||
              config.model.vocab == kBytes,
          "data.path has text, and model.from ", config.from,
          " has no tokenizer.json and no tokenizer.model; set data.tokenizer to the one that "
          "belongs to the model");
}

/// How the owners of a run take part in it; all false where it has none on machines of their own.
struct OwnerRoles {
  bool in_rounds = false;  ///< clients train by themselves, and the server averages
  bool in_turns = false;   ///< … one after another, at layers that the server has
  bool in_parts = false;   ///< all owners have a part of every step
};

OwnerRoles owner_roles(const Config& config, const RunOptions& options) {
  if (!options.part) return {};
  const bool rounds = config.edge.averages();
  return {.in_rounds = rounds, .in_turns = rounds && config.edge.in_order, .in_parts = !rounds};
}

/// What is there before a device begins.
struct Prepared {
  std::optional<data::Data> data;
  std::optional<ClientData> clients;
  std::optional<engine::CompiledStep> compiled;
  std::optional<engine::CompiledStep> held;  ///< of clients that take turns, on the server
};

/// A process of a run, and what is known of it before anything is opened.
struct ProcessOfRun {
  const Config& config;
  const RunOptions& options;
  OwnerRoles roles;
  comm::Launcher& launcher;
  comm::Communicator& world;

  bool is_server() const { return roles.in_rounds && world.rank() == 0; }
};

/// Opens the data and compiles the step. `elsewhere`: what other owners announced of their data.
void prepare(const ProcessOfRun& in, const std::vector<std::optional<data::Announced>>& elsewhere,
             Prepared& run) {
  const Config& config = in.config;
  check_cached_tower(config, in.launcher.shares_files() ? FileAccess::Shared : FileAccess::Apart);
  data::Query query = data_query(config);
  // Nobody else looks at an owner's tokens.
  query.process = in.options.part ? 0 : in.world.rank();
  query.processes = in.options.part ? 1 : in.world.size();
  query.elsewhere = elsewhere;
  run.data.emplace(query);
  check_tokenizer(config, *run.data);
  run.clients = client_data(config, *run.data);
  if (run.clients) check_examples(config, *run.clients);
  if (in.is_server() && !in.roles.in_turns) {
    run.compiled.emplace(compile_server(config, *run.data));
  } else {
    run.compiled.emplace(compile_step(config, inputs_of(config, model_of(config), *run.data,
                                                        run.clients ? &*run.clients : nullptr)));
  }
  if (in.is_server() && in.roles.in_turns) run.held.emplace(compile_held(config, *run.compiled));
  if (!in.roles.in_rounds) engine::check_devices(*run.compiled, in.launcher);
}

/// The same on every process, or on none. The digest of the data, where this process saves it.
std::string prepare_together(const ProcessOfRun& in,
                             const std::vector<std::optional<data::Announced>>& elsewhere,
                             Prepared& run) {
  std::string digest;
  comm::together(in.world, [&] {
    prepare(in, elsewhere, run);
    digest = to_hex(run.data->digest());
  });
  if (in.options.part) return digest;
  check_same_data(in.world, detail::concat(run.data->tokens(), " tokens, digest ", digest));
  return in.world.rank() == 0 ? digest : "";
}

/// What this process saves, and what it begins with.
checkpoint::CheckpointLayout layout_of(const ProcessOfRun& in, const Prepared& run) {
  const Config& config = in.config;
  checkpoint::CheckpointLayout layout = checkpoint_layout(run.compiled->model, config.model);
  if (run.held)
    layout = joined_layout(layout, checkpoint_layout(run.held->model, config.model),
                           shared_part(config, run.compiled->model).tensors);
  if (in.roles.in_parts) layout = part_layout(*run.compiled, layout, in.world.rank());
  return layout;
}

/// Runs the devices of this process, `here`; what device 0 reports, or this process's own.
RunReport run_devices(const ProcessOfRun& in, const Job& job, comm::Launcher& here) {
  RunReport report;
  in.launcher.set_pin(in.config.devices.pin ? comm::Pin::Yes : comm::Pin::No);
  or_remove_drafts(in.config, in.world, [&] {
    here.run(
        in.roles.in_turns ? 1 : job.compiled.devices(), static_cast<int>(in.config.devices.threads),
        [&](comm::Communicator& devices) {
          RunReport mine = run_device(job, devices);
          if (devices.rank() == 0 || here.devices()) report = std::move(mine);
        },
        [&](const std::exception& error) { job.observer.on_stuck(error); });
  });
  report.exact = *in.config.numerics.exact;
  return report;
}

/// State that survivors of a lost device have in memory; nothing if it comes from disk, or anew.
std::optional<MovedState> moved_state(const ProcessOfRun& in, const engine::CompiledStep& compiled,
                                      const checkpoint::CheckpointLayout& layout,
                                      StartOptions& start) {
  if (!keeps_state(in.options)) return std::nullopt;
  return state_in_memory(
      {.kept = *in.options.kept,
       .everyone = in.options.everyone != nullptr ? *in.options.everyone : in.world,
       .compiled = compiled,
       .layout = layout},
      in.config, start);
}

/// What is known before the first step; `back`: why an owner's part goes back, if it does.
void announce_start(const ProcessOfRun& in, const Prepared& run, const std::string& back,
                    RunObserver& observer) {
  if (in.world.rank() > 0) return;
  observer.on_compiled(*run.compiled);
  for (const std::string& warning :
       {run.compiled->warning, back, validation_warning(*run.data, data_query(in.config))})
    if (!warning.empty()) observer.on_warning(warning);
}

}  // namespace

RunReport run(const Config& given, const RunOptions& options, RunObserver& observer,
              comm::Launcher& launcher) {
  comm::Communicator& world = launcher.processes();
  if (agree_to_stop(world)) return stopped_at_start({});
  if (given.devices.emulate) return run_emulated(given, options, observer, launcher);
  Config config = launcher.shares_files() ? given : with_fetched_data(given, options.part, world);
  resolve_numerics(config, ops::instruction_set(), world);
  std::vector<std::optional<data::Announced>> elsewhere;
  if (options.part) elsewhere = exchange_announcements(config, *options.part, world);
  const OwnerRoles roles = owner_roles(config, options);
  const ProcessOfRun process{config, options, roles, launcher, world};
  Prepared prepared;
  StartOptions start = options.start;
  start.data = prepare_together(process, elsewhere, prepared);
  if (agree_to_stop(world)) return stopped_at_start({});
  const engine::CompiledStep& compiled = *prepared.compiled;
  const checkpoint::CheckpointLayout layout = layout_of(process, prepared);
  std::optional<RoundExchange> exchange;
  if (roles.in_rounds)
    exchange.emplace(world, config.edge.client_count(), client_of(config, *options.part));
  std::optional<Turns> turns;
  if (roles.in_turns) turns.emplace(world, *exchange, options.patience);
  comm::LocalLauncher alone;
  comm::Launcher& devices_here = roles.in_rounds ? alone : launcher;
  const bool keeps = roles.in_parts && keeps_part(compiled, config, world.rank());
  std::string back;
  std::optional<MovedState> moved = moved_state(process, compiled, layout, start);
  const Job job{
      .config = config,
      .options = options,
      .data = *prepared.data,
      .clients = prepared.clients,
      .compiled = compiled,
      .layout = layout,
      .moved = std::move(moved),
      .start = roles.in_rounds  ? start_of_rounds(config, start, layout, world)
               : roles.in_parts ? prepare_parts({&config, &layout, keeps, &world}, start, back)
                                : start_of(config, start, layout, launcher),
      .at_once = at_once_of(compiled, config, devices_here),
      .observer = observer,
      .own_process = roles.in_rounds || devices_here.has_own_processes(compiled.devices()),
      .shares_files = devices_here.shares_files(),
      .keeps_part = keeps,
      .exchange = exchange ? &*exchange : nullptr,
      .turns = turns ? &*turns : nullptr,
      .held = prepared.held ? &*prepared.held : nullptr,
      .data_digest = start.data};
  announce_start(process, prepared, back, observer);
  provide_features(config, job.start, *prepared.data, world, observer);
  // Within a turn a client has a pipeline of its own, with this patience; between turns it waits
  // for those of all others.
  world.set_patience(roles.in_turns && world.rank() > 0 ? comm::Clock::duration::max()
                                                        : options.patience);
  return run_devices(process, job, devices_here);
}

}  // namespace cleave::train
