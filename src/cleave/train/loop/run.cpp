#include <filesystem>

#include "cleave/base/hash.h"
#include "cleave/checkpoint/directory.h"
#include "cleave/comm/together.h"
#include "cleave/engine/run/device_kinds.h"
#include "cleave/train/loop/device_run.h"
#include "cleave/train/loop/emulated_run.h"
#include "cleave/train/loop/feature_cache.h"
#include "cleave/train/loop/forecast.h"
#include "cleave/train/loop/run.h"
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
  std::optional<data::Data> data;
  std::optional<ClientData> clients;
  std::optional<engine::CompiledStep> compiled;
  StartOptions start = options.start;
  const bool in_rounds = options.part && config.edge.averages();
  const bool in_turns = in_rounds && config.edge.in_order;
  std::optional<engine::CompiledStep> held;
  comm::together(world, [&] {
    check_cached_tower(config, launcher.shares_files() ? FileAccess::Shared : FileAccess::Apart);
    data::Query query = data_query(config);
    // Nobody else looks at an owner's tokens.
    query.process = options.part ? 0 : world.rank();
    query.processes = options.part ? 1 : world.size();
    query.elsewhere = elsewhere;
    data.emplace(query);
    check_tokenizer(config, *data);
    clients = client_data(config, *data);
    if (clients) check_examples(config, *clients);
    if (world.rank() == 0 || options.part) start.data = to_hex(data->digest());
    compiled.emplace(in_rounds && !in_turns && world.rank() == 0
                         ? compile_server(config, *data)
                         : compile_step(config, inputs_of(config, model_of(config), *data,
                                                          clients ? &*clients : nullptr)));
    if (in_turns && world.rank() == 0) held.emplace(compile_held(config, *compiled));
    if (!in_rounds) engine::check_devices(*compiled, launcher);
  });
  if (agree_to_stop(world)) return stopped_at_start({});
  checkpoint::CheckpointLayout layout = checkpoint_layout(compiled->model, config.model);
  if (held)
    layout = joined_layout(layout, checkpoint_layout(held->model, config.model),
                           shared_part(config, compiled->model).tensors);
  const bool in_parts = options.part && !in_rounds;
  std::optional<RoundExchange> exchange;
  if (in_rounds)
    exchange.emplace(world, config.edge.client_count(), client_of(config, *options.part));
  std::optional<Turns> turns;
  if (in_turns) turns.emplace(world, *exchange, options.patience);
  comm::LocalLauncher alone;
  comm::Launcher& devices_here = in_rounds ? alone : launcher;
  if (in_parts) layout = part_layout(*compiled, layout, world.rank());
  const bool keeps = in_parts && keeps_part(*compiled, config, world.rank());
  std::string back;
  std::optional<MovedState> moved;
  if (keeps_state(options)) {
    moved = state_in_memory({.kept = *options.kept,
                             .everyone = options.everyone != nullptr ? *options.everyone : world,
                             .compiled = *compiled,
                             .layout = layout},
                            config, start);
  }
  const Job job{config,
                options,
                *data,
                clients,
                *compiled,
                layout,
                std::move(moved),
                in_rounds  ? start_of_rounds(config, start, layout, world)
                : in_parts ? prepare_parts({&config, &layout, keeps, &world}, start, back)
                           : start_of(config, start, layout, launcher),
                at_once_of(*compiled, config, devices_here),
                observer,
                in_rounds || devices_here.has_own_processes(compiled->devices()),
                devices_here.shares_files(),
                keeps,
                exchange ? &*exchange : nullptr,
                turns ? &*turns : nullptr,
                held ? &*held : nullptr,
                start.data};
  if (world.rank() == 0) {
    observer.on_compiled(*compiled);
    for (const std::string& warning : {back, validation_warning(*data, data_query(config))})
      if (!warning.empty()) observer.on_warning(warning);
  }
  provide_features(config, job.start, *data, world, observer);
  // Within a turn a client has a pipeline of its own, with this patience; between turns it waits
  // for those of all others.
  world.set_patience(in_turns && world.rank() > 0 ? comm::Clock::duration::max()
                                                  : options.patience);
  RunReport report;
  launcher.set_pin(config.devices.pin ? comm::Pin::Yes : comm::Pin::No);
  or_remove_drafts(config, world, [&] {
    devices_here.run(
        in_turns ? 1 : compiled->devices(), static_cast<int>(config.devices.threads),
        [&](comm::Communicator& devices) {
          RunReport mine = run_device(job, devices);
          if (devices.rank() == 0 || devices_here.devices()) report = std::move(mine);
        },
        [&](const std::exception& error) { observer.on_stuck(error); });
  });
  report.exact = *config.numerics.exact;
  return report;
}

}  // namespace cleave::train
