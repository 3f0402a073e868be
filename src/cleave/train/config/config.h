#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/data/query.h"
#include "cleave/model/family.h"
#include "cleave/schedule/passes.h"
#include "cleave/spec/dtype.h"
#include "cleave/spec/lora.h"
#include "cleave/spec/mesh.h"
#include "cleave/spec/placement.h"
#include "cleave/train/config/edge_config.h"

namespace cleave::train {

enum class Transport : std::uint8_t { Local, Mpi, Tcp };

/// A number, or nothing for "auto": left to the planner.
using Auto = std::optional<std::int64_t>;

/// The learning rate of a step, counted from 1.
struct RatePoint {
  std::int64_t step = 1;
  double rate = 0;

  friend bool operator==(const RatePoint&, const RatePoint&) = default;
};

struct TrainConfig {
  std::int64_t steps = 100;
  std::int64_t batch = 8;  ///< sequences per step, all devices together
  Auto microbatch = 1;     ///< sequences
  std::int64_t sequence = 256;
  DType dtype = DType::F32;
  std::string optimizer = "adamw";
  std::string schedule = "cosine";  ///< a name of rate_curves()
  double lr = 3e-4;
  double min_lr = 3e-5;
  std::int64_t warmup = 10;  ///< steps
  std::int64_t decay = 20;   ///< steps at the end, for schedules that are level before
  /// Ascending, with straight lines between them; if there are any, they say it all.
  std::vector<RatePoint> rates = {};
  std::array<double, 2> betas = {0.9, 0.95};
  std::optional<double> momentum;  ///< not given: what the optimizer takes by itself
  double weight_decay = 0.1;
  std::int64_t loss_blocks = 1;     ///< pieces of the vocabulary, of whose logits one is in memory
  double clip = 1.0;                ///< largest global gradient norm; 0: no clipping
  std::int64_t skip_nonfinite = 0;  ///< steps whose numbers are no numbers that may be left out
  std::int64_t seed = 1;
  std::int64_t eval_every = 0;        ///< 0: only after the last step
  std::int64_t checkpoint_every = 0;  ///< 0: only after the last step
  std::int64_t keep = 2;
  bool elastic = true;  ///< over TCP: go on without devices that are lost, and with new ones
  std::int64_t copies =
      0;  ///< of each device's state in other devices' memory, for when one is lost
  std::string out = "out";

  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

/// Seconds that an emulated device sleeps for each F, I and W, that messages take, and how fast it
/// moves things out.
struct Emulation {
  double f = 0;
  double i = 0;
  double w = 0;
  double link = 0;  ///< that a message is on its way between stages, and a credit before it
  double host = 0;  ///< bytes per second between a device and the host; 0: nothing moves out
  /// For each layer and sequence, so that layouts compare as they would for a model; otherwise for
  /// each microbatch, whatever the device holds of the model.
  bool per_layer = false;

  friend bool operator==(const Emulation&, const Emulation&) = default;
};

struct DevicesConfig {
  std::int64_t count = 1;
  std::vector<std::int64_t> memory;       ///< bytes; empty: not given, one entry: for every device
  std::int64_t threads = 1;               ///< per device
  std::vector<std::int64_t> host_memory;  ///< bytes outside; as `memory`
  std::string spill;                      ///< directory for what moves out; empty: host memory
  std::vector<std::string> kind;          ///< empty: "cpu", one entry: for every device
  std::vector<double> speed;              ///< relative, for emulation; empty: all 1
  Transport transport = Transport::Local;
  bool pin = true;  ///< threads of devices to cores
  std::optional<Emulation> emulate;

  /// True if a device is something else than a processor.
  bool accelerated() const {
    return std::ranges::any_of(kind, [](const std::string& k) { return k != "cpu"; });
  }

  friend bool operator==(const DevicesConfig&, const DevicesConfig&) = default;
};

/// One for all layers, or one for each; nothing for "auto".
using RecomputeChoice = std::optional<std::vector<schedule::Recompute>>;

/// Layers per stage; nothing for "auto": by cost.
using Partition = std::optional<std::vector<std::int64_t>>;

struct ParallelConfig {
  Auto pipeline = 1;
  Auto tensor = 1;
  Auto data = 1;
  AxisOrder order = kDefaultOrder;
  Auto chunks;                    ///< auto with a fixed schedule: what the schedule wants
  std::string schedule = "1f1b";  ///< a name of schedule_names(), "auto", or a file
  Partition partition;
  Placement placement = Placement::Even;          ///< of the encoders of models that have some
  std::optional<std::int64_t> vision_pipeline;    ///< their stages, where these are their own
  std::optional<std::int64_t> language_pipeline;  ///< and those of the language model
  std::optional<std::int64_t> vision_data;  ///< replicas of their stages, if not as many as `data`
  std::optional<std::int64_t> language_data;    ///< and of the language model's: `data`
  std::optional<std::int64_t> vision_tensor;    ///< their tensor degree, if not `tensor`
  std::optional<std::int64_t> language_tensor;  ///< and the language model's: `tensor`
  Auto zero = 0;
  RecomputeChoice recompute = std::vector{schedule::Recompute::None};
  /// What leaves a device's memory while it is not used; nothing for "auto": what makes it fit.
  std::optional<schedule::Offload> offload = schedule::Offload::Nothing;
  Auto receive_ahead;  ///< instructions from a RECV to its reader; auto: what hides the latency
  Auto early;          ///< microbatches begun early; auto: the same
  bool sequence_parallel = false;
  bool any_grid = false;  ///< "auto" may choose another grid on another machine

  /// Replicas of what has the most of them, which share the batch. `data` has a value.
  std::int64_t replicas() const { return std::max(*data, vision_data.value_or(0)); }
  /// Devices of all axes, which have values.
  std::int64_t devices() const;
  /// Whether modules have tensor degrees of their own.
  bool degrees_differ() const { return vision_tensor && vision_tensor != tensor; }

  friend bool operator==(const ParallelConfig&, const ParallelConfig&) = default;
};

/// What fixes every bit: the logical grid, which is the order of every sum (nothing only while the
/// axis is "auto"), and how products round.
struct NumericsConfig {
  std::optional<std::int64_t> data_shards;
  std::optional<std::int64_t> tensor_shards;
  std::optional<std::int64_t> vision_tensor_shards;  ///< of encoders, if not `tensor_shards`
  std::optional<bool> exact;  ///< nothing until resolve_numerics() has looked at the processors

  friend bool operator==(const NumericsConfig&, const NumericsConfig&) = default;
};

/// A run, with every default filled in and every rule checked.
struct Config {
  std::string preset;  ///< where `model` started from; empty: from keys alone
  std::string from;  ///< a Hugging Face directory that `model` and its weights come from; or empty
  ModelShape model;
  std::vector<std::string> trained;  ///< model.train; empty: all parameters, or adapters alone
  bool packs_embedding = false;      ///< model.frozen_embedding: "int8"
  Lora lora;                         ///< [lora]
  std::string adapters;              ///< lora.from; empty: fresh ones
  data::DataConfig data;
  TrainConfig train;
  DevicesConfig devices;
  ParallelConfig parallel;
  NumericsConfig numerics;
  EdgeConfig edge;

  friend bool operator==(const Config&, const Config&) = default;
};

/// What surrounds the config file.
struct ConfigOptions {
  std::vector<std::string> overrides = {};  ///< "train.steps=50", later ones win
  std::string defaults = {};  ///< TOML: holds where file and overrides say nothing or "auto"
  std::optional<std::int64_t> world_size = {};  ///< under mpirun or srun
  DType default_dtype = DType::F32;             ///< if train.dtype is not given
};

/// Defaults, then the file, then the overrides. Throws UserError: one sentence for each thing that
/// is wrong, which names the key, its value and place, the rule and the remedy.
Config load_config(const std::string& path, const ConfigOptions& options = {});

/// The same from text; `name` stands for the file in messages.
Config parse_config(std::string_view text, const std::string& name,
                    const ConfigOptions& options = {});

/// What the run asks of its data.
data::Query data_query(const Config& config);

/// Samples that one run of the program of a step takes: train.batch of them, or one where the
/// gradient of each example is clipped by itself.
std::int64_t batch_of_program(const Config& config);

/// The whole config as TOML, which loads back to an equal Config.
std::string to_toml(const Config& config);

/// The logical grid of `config`, which fixes every order of summation, as TOML.
std::string grid_of(const Config& config);

}  // namespace cleave::train
