#pragma once

#include <cstdint>
#include <vector>

#include "cleave/data/dataset.h"
#include "cleave/engine/compile/compile.h"
#include "cleave/engine/run/microbatch_source.h"
#include "cleave/train/config/config.h"
#include "cleave/train/step/client_data.h"

namespace cleave::train {

/// How the microbatches of a step are dealt to the data shards of the grid: like cards, those whose
/// samples have optional inputs first. A replica has consecutive shards, one after another.
struct Dealing {
  std::int64_t shards = 0;  ///< of the grid; 0: replicas take blocks, in the order of the samples
  std::int64_t first_shard = 0;  ///< of this replica
  std::int64_t per_shard = 1;    ///< microbatches

  bool by_content() const { return shards > 0; }

  /// The number that microbatch `index` of this replica has among all of the step.
  std::int64_t number_of(std::int64_t index) const {
    return index % per_shard * shards + first_shard + index / per_shard;
  }
};

/// Whether the samples of a model's steps are ordered by content: where it has optional inputs,
/// and the data are nobody's in particular.
bool deals_by_content(const Graph& model, const ClientData* clients);

/// What of the data decides which programs a run needs.
struct DataInputs {
  std::vector<engine::InputCount> steps = {};  ///< as CompileOptions::optional_inputs
  engine::EvaluatedInputs evaluated = {};
  /// Images of a microbatch, as the data bring them where there is room for more, ascending: as
  /// CompileOptions::fewer.
  std::vector<std::int64_t> images = {};
  /// The one of them, or the room, that most of the run's microbatches are near to; kAll: the room.
  std::int64_t usual_images = engine::MicrobatchSource::kAll;
};

/// In the steps and validations of a run; nothing where all microbatches have all inputs.
DataInputs inputs_of(const Config& config, const Graph& model, const data::Data& data,
                     const ClientData* clients);

/// The same for evaluating all samples of `data`.
DataInputs evaluated_data_inputs(const Config& config, const Graph& model,
                                 const data::Dataset& data);

/// Of all samples of `data`, in microbatches of `microbatch`.
engine::EvaluatedInputs evaluated_inputs(const Graph& model, const data::Dataset& data,
                                         std::int64_t microbatch);

}  // namespace cleave::train
