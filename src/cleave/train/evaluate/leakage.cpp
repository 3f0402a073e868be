#include "cleave/train/evaluate/leakage.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/check.h"
#include "cleave/checkpoint/directory.h"
#include "cleave/comm/local/local_world.h"
#include "cleave/edge/distance_correlation.h"
#include "cleave/train/evaluate/evaluate.h"
#include "cleave/train/evaluate/tap.h"
#include "cleave/train/save/adapters.h"
#include "cleave/train/save/saving.h"
#include "cleave/train/step/cuts.h"
#include "cleave/train/step/numerics.h"
#include "cleave/train/step/trainer.h"
#include "cleave/train/step/validation.h"

namespace cleave::train {
namespace {

constexpr std::int64_t kLeastProbeRows = 64;
constexpr std::int64_t kMostDistances = 1024;  ///< rows whose distances from each other are taken
constexpr std::int64_t kMostWidth = 1 << 16;
constexpr std::int64_t kHiddenShare = 4;  ///< one row in so many is held back from the inverter

int client_called(const Config& config, const std::string& name) {
  const std::vector<int> clients = config.edge.with_role(edge::Role::Client);
  require(config.edge.is_split() && !clients.empty(),
          "no owner of the run has layers of its own, so nothing leaves at a cut; give clients "
          "layers in [[edge.owner]]");
  if (name.empty()) return clients.front();
  for (const int client : clients)
    if (config.edge.owners[static_cast<std::size_t>(client)].name == name) return client;
  throw UserError(detail::concat("the run has no client \"", name, "\"; name one of its clients"));
}

/// One device with the whole model, and one sample at a time.
Config probe_config(const Config& config) {
  Config one = evaluation_config(
      config, {.devices = 1, .overrides = {"train.microbatch=1", "numerics.exact=true"}},
      std::nullopt);
  one.data.tokenizer = config.data.tokenizer;
  one.train.seed = config.train.seed;
  return one;
}

data::Query probe_query(const Config& config, const LeakageOptions& options) {
  require(!options.probe.empty(), "there is no data to look at; give it with --probe");
  data::Query query = data_query(config);
  query.path_key = "--probe";
  query.leave_out.clear();
  query.config.validation = 0.0;
  query.config.path = {{options.probe}};
  return query;
}

void give_probe_weights(const Config& config, const Config& one, const LeakageOptions& options,
                        const engine::CompiledStep& compiled, engine::Device& device) {
  const std::string from = options.from.empty() ? config.from : options.from;
  device.initialise(static_cast<std::uint64_t>(one.train.seed));
  const checkpoint::CheckpointLayout layout = checkpoint_layout(compiled.model);
  bool adapted = false;  // by what was trained, which lora.from only began
  if (!from.empty()) {
    const checkpoint::CheckpointReader reader(checkpoint::find_checkpoint(from),
                                              checkpoint::Load::WeightsOnly);
    const checkpoint::CheckpointLayout loaded = layout_in(reader, layout);
    adapted = loaded.parameters().size() == layout.parameters().size();
    load(reader, loaded, device);
  }
  if (!adapted) load_adapters(config, layout, device);
}

/// What a client reads, and what leaves it, for every sample of the probe.
struct BothSides {
  Tapped inputs, leaving;
};

BothSides look_at_probe(const Config& config, const Config& one, const LeakageOptions& options,
                        std::int64_t segments) {
  const data::Data data(probe_query(one, options));
  engine::CompileOptions how = compile_options(one);
  how.purpose = engine::Purpose::Evaluate;
  const engine::CompiledStep compiled = engine::compile(model_of(one), how);
  const auto& parts = compiled.model.segments;
  CLEAVE_CHECK(segments > 0 && segments < std::ssize(parts), segments, " of ", parts.size());
  BothSides sides;
  const std::vector<Tap> taps = {
      {parts.front().layers.front().name, &sides.inputs},
      {parts[static_cast<std::size_t>(segments)].layers.front().name, &sides.leaving}};
  comm::LocalWorld world(1);
  const std::unique_ptr<comm::Communicator> alone = world.join(0);
  engine::Device device(compiled, 0, static_cast<int>(one.devices.threads), *alone,
                        tapped(LayerKinds(), taps));
  give_probe_weights(config, one, options, compiled, device);
  Validation validation(data.training(), compiled, 0, 1);
  require(validation.sequences() > 0, options.probe, " has not one sample of ", one.train.sequence,
          " tokens; give a larger one with --probe");
  validation.run(device.executor());
  return sides;
}

/// Row by row where as many leave as are read, else sample by sample.
SeenRows probe_rows_of(BothSides sides, std::int64_t most) {
  const bool alike = sides.inputs.rows == sides.leaving.rows;
  const std::int64_t rows = alike ? sides.leaving.rows : sides.leaving.calls;
  require(rows >= kLeastProbeRows, "the probe has ", rows, " rows, and a figure of leakage needs ",
          kLeastProbeRows, "; give a larger one with --probe");
  SeenRows seen{.width = std::ssize(sides.leaving.values) / rows,
                .seen = std::move(sides.leaving.values),
                .ids = std::move(sides.inputs.ids),
                .values_width = std::ssize(sides.inputs.values) / rows,
                .values = std::move(sides.inputs.values)};
  require(seen.width <= kMostWidth && seen.values_width <= kMostWidth,
          "what leaves for a sample has ", std::max(seen.width, seen.values_width),
          " numbers, and a figure of leakage takes ", kMostWidth, " at most; make samples smaller");
  CLEAVE_CHECK(seen.ids.empty() || alike, "ids of samples");
  return seen.part(0, std::min(rows, most));
}

double row_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += off * off;
  }
  return std::sqrt(sum);
}

/// Distances of n rows from each other; ids are 1 apart if they differ.
template <class Between>
std::vector<double> distance_table(std::int64_t n, const Between& between) {
  std::vector<double> out(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < i; ++j)
      out[static_cast<std::size_t>(i * n + j)] = out[static_cast<std::size_t>(j * n + i)] =
          between(i, j);
  }
  return out;
}

double correlation_of(const SeenRows& rows) {
  const std::int64_t n = std::min(rows.rows(), kMostDistances);
  const std::int64_t apart = rows.rows() / n;
  const auto row = [&](const std::vector<float>& of, std::int64_t width, std::int64_t i) {
    return std::span<const float>(of.data() + i * apart * width, static_cast<std::size_t>(width));
  };
  const auto leaving = distance_table(n, [&](std::int64_t i, std::int64_t j) {
    return row_distance(row(rows.seen, rows.width, i), row(rows.seen, rows.width, j));
  });
  const auto inputs = distance_table(n, [&](std::int64_t i, std::int64_t j) {
    if (!rows.ids.empty())
      return rows.ids[static_cast<std::size_t>(i * apart)] ==
                     rows.ids[static_cast<std::size_t>(j * apart)]
                 ? 0.0
                 : 1.0;
    return row_distance(row(rows.values, rows.values_width, i),
                        row(rows.values, rows.values_width, j));
  });
  return edge::distance_correlation(inputs, leaving);
}

}  // namespace

Leakage measure_leakage(const Config& config, const LeakageOptions& options) {
  require(options.rows >= kLeastProbeRows, "--rows ", options.rows, " is less than ",
          kLeastProbeRows, ", of which nothing can be learned");
  const int client = client_called(config, options.owner);
  const Config one = probe_config(config);
  Leakage out{.owner = config.edge.owners[static_cast<std::size_t>(client)].name,
              .segments = segments_before_cut(config, model_of(one), client)};
  BothSides sides = look_at_probe(config, one, options, out.segments);
  const bool alike = sides.inputs.rows == sides.leaving.rows;
  const SeenRows rows = probe_rows_of(std::move(sides), options.rows);
  out.row = !alike ? "sample" : rows.ids.empty() ? "patch" : "token";
  out.width = rows.width;
  out.hidden = rows.rows() / kHiddenShare;
  out.known = rows.rows() - out.hidden;
  out.distance_correlation = correlation_of(rows);
  ops::Compute compute(1, ops::Arithmetic::Exact);
  out.inverter = invert(compute, rows.part(0, out.known), rows.part(out.known, out.hidden),
                        static_cast<std::uint64_t>(config.train.seed));
  return out;
}

}  // namespace cleave::train
