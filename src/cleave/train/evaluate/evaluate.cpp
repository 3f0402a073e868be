#include "cleave/train/evaluate/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/checkpoint/directory.h"
#include "cleave/checkpoint/non_finite.h"
#include "cleave/comm/together.h"
#include "cleave/engine/run/device_kinds.h"
#include "cleave/plan/tune/layout_check.h"
#include "cleave/train/config/config_schema.h"
#include "cleave/train/generate/model_text.h"
#include "cleave/train/save/saving.h"
#include "cleave/train/step/dealing.h"
#include "cleave/train/step/numerics.h"
#include "cleave/train/step/trainer.h"
#include "cleave/train/step/validation.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Enough microbatches of a replica at once to keep a pipeline of a few devices busy.
constexpr std::int64_t kAtOnce = 4;

/// What the overrides say of an axis; `otherwise` if nothing, 1 if nothing that is a number.
std::int64_t overridden(const std::vector<std::string>& overrides, std::string_view key,
                        std::int64_t otherwise = 1) {
  std::int64_t degree = otherwise;
  for (const std::string& override : overrides) {
    const Entry entry = read_override(override);
    const auto* number = std::get_if<std::int64_t>(&entry.value.is);
    if (entry.key == key) degree = number == nullptr ? 1 : std::max<std::int64_t>(1, *number);
  }
  return degree;
}

/// What of a run's config decides what its model computes, and with which bits.
bool is_of_model(const Key& key) {
  constexpr std::string_view kOthers[] = {"train.microbatch",  "train.sequence", "train.dtype",
                                          "train.loss_blocks", "numerics.exact", "data.images",
                                          "data.documents"};
  if (key.name.starts_with("data.template")) return true;
  if (key.name == "model.from") return false;  // the keys of the shape say it all
  if (key.section() == "lora") return key.name != "lora.from";
  return key.name.starts_with("model.") ||
         std::ranges::find(kOthers, key.name) != std::end(kOthers);
}

std::string model_toml(const Config& saved) {
  std::string text;
  for (const Key& key : config_keys()) {
    const std::optional<Value> value = is_of_model(key) ? key.get(saved) : std::nullopt;
    if (value) text += fmt::format("{} = {}\n", key.name, to_toml(*value));
  }
  return text;
}

/// What keeps the tensor shards of a saved grid, where the layout of the overrides can have them.
std::vector<std::string> tensor_grid(const Config& saved,
                                     const std::vector<std::string>& overrides) {
  const std::int64_t tensor =
      overridden(overrides, "parallel.tensor", overridden(overrides, "parallel.language.tensor"));
  const std::int64_t shards = saved.numerics.tensor_shards.value_or(1);
  const std::int64_t of_vision = saved.numerics.vision_tensor_shards.value_or(shards);
  if (!plan::folds_onto(shards, tensor) ||
      !plan::folds_onto(of_vision, overridden(overrides, "parallel.vision.tensor", tensor)))
    return {};
  std::vector<std::string> keys = {fmt::format("numerics.tensor_shards={}", shards)};
  if (of_vision != shards)
    keys.push_back(fmt::format("numerics.vision.tensor_shards={}", of_vision));
  return keys;
}

/// What the devices of an evaluation share.
struct EvaluateJob {
  const Config& config;
  const data::Data& data;
  const engine::CompiledStep& compiled;
  const checkpoint::CheckpointReader& checkpoint;
  EvaluateObserver& observer;
};

EvaluateReport evaluate_here(const EvaluateJob& job, comm::Communicator& world) {
  const int index = world.rank();
  engine::Device device(job.compiled, index, static_cast<int>(job.config.devices.threads), world);
  load(job.checkpoint, checkpoint_layout(job.compiled.model), device);
  Validation validation(job.data.training(), job.compiled, index, *job.config.train.microbatch);
  const Clock::time_point start = Clock::now();
  EvaluateReport report{.checkpoint = job.checkpoint.path(),
                        .step = job.checkpoint.state().step,
                        .tokens = validation.tokens(),
                        .data_tokens = job.data.tokens(),
                        .sequences = validation.sequences(),
                        .sequence = job.config.train.sequence};
  const Evaluation found = validation.run(device.executor(), [&](std::int64_t done) {
    if (index == 0) job.observer.on_sequences(done, report.sequences);
  });
  report.loss = found.loss;
  report.accuracy = found.accuracy;
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const std::int64_t planned = job.compiled.evaluations.empty() ? job.compiled.planned_on(index)
                                                                : device.executor().planned_bytes();
  report.devices = gather_memory({planned, device.arena().peak()}, world);
  return report;
}

void check_undamaged(const fs::path& checkpoint) {
  const auto problems = checkpoint::verify_checkpoint(checkpoint, checkpoint::Load::WeightsOnly);
  if (problems.empty()) return;
  constexpr std::string_view remedy = "; use another checkpoint";
  const std::string& problem = problems.front();
  throw UserError(problem.ends_with(remedy) ? problem : detail::concat(problem, remedy));
}

data::Query query_of(const Config& config, const EvaluateOptions& options,
                     comm::Communicator& processes) {
  require(!options.data.empty(), "there is no data; give it with --data");
  data::Query query = data_query(config);
  query.path_key = "--data";
  query.tail = data::Tail::FilledUp;
  query.leave_out.clear();
  query.process = processes.rank();
  query.processes = processes.size();
  query.config.validation = 0.0;
  query.config.path.clear();
  for (const std::string& path : options.data) query.config.path.push_back({path});
  return query;
}

}  // namespace

double EvaluateReport::perplexity() const {
  return std::exp(loss);
}

std::optional<double> EvaluateReport::bytes_per_token() const {
  if (!text_bytes) return std::nullopt;
  return static_cast<double>(*text_bytes) / static_cast<double>(data_tokens);
}

std::optional<double> EvaluateReport::bits_per_byte() const {
  // All but the first token, which nothing comes before, must have been predicted.
  if (!text_bytes || *text_bytes == 0 || tokens + 1 != data_tokens) return std::nullopt;
  return loss / std::log(2.0) / *bytes_per_token();
}

Config evaluation_config(const Config& saved, const EvaluateOptions& options,
                         std::optional<std::int64_t> world_size) {
  const std::int64_t replicas = std::max({overridden(options.overrides, "parallel.data"),
                                          overridden(options.overrides, "parallel.vision.data"),
                                          overridden(options.overrides, "parallel.language.data")});
  const std::int64_t microbatch = saved.train.microbatch.value_or(1);
  ConfigOptions around{.world_size = world_size};
  std::vector<std::string>& says = around.overrides;
  says = {"train.steps=0", fmt::format("train.batch={}", microbatch * replicas * kAtOnce)};
  std::ranges::move(tensor_grid(saved, options.overrides), std::back_inserter(says));
  if (options.sequence) says.push_back(fmt::format("train.sequence={}", *options.sequence));
  const auto devices = options.devices ? std::optional<std::int64_t>(*options.devices) : world_size;
  const bool laid_out = std::ranges::any_of(
      options.overrides, [](const std::string& key) { return key.starts_with("parallel."); });
  if (devices)
    says.push_back(
        fmt::format("{}={}", laid_out ? "devices.count" : "parallel.pipeline", *devices));
  std::ranges::copy(options.overrides, std::back_inserter(says));
  const Config config = parse_config(model_toml(saved), "the checkpoint's config", around);
  const ParallelConfig& p = config.parallel;
  require(
      p.pipeline && p.tensor && p.data && p.zero && p.recompute && p.schedule != "auto" &&
          config.train.microbatch,
      "\"auto\" is for training, and to evaluate nothing is measured; give the layout as numbers, "
      "such as --set parallel.pipeline=2");
  return config;
}

EvaluateReport evaluate(const fs::path& path, const EvaluateOptions& options,
                        EvaluateObserver& observer, comm::Launcher& launcher) {
  comm::Communicator& world = launcher.processes();
  std::optional<checkpoint::CheckpointReader> checkpoint;
  Config config;
  comm::together(world, [&] {
    const fs::path found = checkpoint::find_checkpoint(path);
    if (world.rank() == 0) check_undamaged(found);
    checkpoint.emplace(found, checkpoint::Load::WeightsOnly);
    const Config saved = config_of(*checkpoint);
    config = evaluation_config(saved, options, launcher.devices());
    if (config.data.tokenizer.empty()) config.data.tokenizer = tokenizer_name(found, saved);
  });
  resolve_numerics(config, ops::instruction_set(), world);
  std::optional<data::Data> data;
  std::optional<engine::CompiledStep> compiled;
  comm::together(world, [&] {
    data.emplace(query_of(config, options, world));
    require(!config.data.tokenizer.empty() || !data->has_text(), "--data ", options.data[0],
            " is text, and the model was trained on tokens of a tokenizer that is not beside it; "
            "pass --set data.tokenizer=FILE");
    engine::CompileOptions how = compile_options(config);
    how.purpose = engine::Purpose::Evaluate;
    const Graph model = model_of(config);
    set_inputs(config, evaluated_data_inputs(config, model, data->training()), how);
    compiled.emplace(engine::compile(model, how));
    engine::check_devices(*compiled, launcher);
  });
  EvaluateReport report;
  launcher.run(compiled->devices(), static_cast<int>(config.devices.threads),
               [&](comm::Communicator& devices) {
                 EvaluateReport mine =
                     evaluate_here({config, *data, *compiled, *checkpoint, observer}, devices);
                 if (devices.rank() == 0 || launcher.devices()) report = std::move(mine);
               });
  comm::together(world, [&] {
    if (world.rank() == 0 && !std::isfinite(report.loss))
      throw NonFinite("the loss is not finite: " + checkpoint::why_not_finite(*checkpoint));
  });
  if (world.rank() == 0) report.text_bytes = data->text_bytes();
  return report;
}

}  // namespace cleave::train
