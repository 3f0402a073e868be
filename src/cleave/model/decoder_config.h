#pragma once

#include "cleave/model/config_json.h"
#include "cleave/model/model_shape.h"

namespace cleave::model {

// What the config.json of the families that descend from Llama have in common. Readers throw
// UserError as ConfigJson does; each writer sets what its reader reads.

/// What a key that is missing stands for, where families differ.
struct DecoderDefaults {
  double norm_eps = 1e-6;
  double rope_theta = 10000;
  bool tie_embeddings = false;
  std::int64_t kv_heads = 0;          ///< 0: as many as heads
  std::int64_t pad_token = -1;        ///< -1: none
  bool partial_rotary = false;        ///< whether it has a partial_rotary_factor
  const ModelShape* sizes = nullptr;  ///< null: all of them must be there
};

/// Sizes, norms, activation, ties and rotary positions.
void read_decoder(const ConfigJson& config, const DecoderDefaults& defaults, ModelShape& shape);
void write_decoder(const ModelShape& shape, ConfigJsonText& config);

/// Sizes, norms and ties alone.
void read_decoder_sizes(const ConfigJson& config, const DecoderDefaults& defaults,
                        ModelShape& shape);
void write_decoder_sizes(const ModelShape& shape, ConfigJsonText& config);

/// What a table such as rope_scaling says inside `config`.
RopeScaling read_rope_scaling(const ConfigJson& config, const ConfigJson& rope, double context);
void write_rope(const ModelShape& shape, ConfigJsonText& config);

/// Which of the layers have the window that the shape has, by a rule if there is one.
void set_window_layers(const std::vector<bool>& windowed, ModelShape& shape);

/// layer_types, by which layers have the window of `sliding_window` or not. What is set in the
/// shape before holds if the key is missing.
void read_layer_types(const ConfigJson& config, ModelShape& shape);
void write_layer_types(const ModelShape& shape, ConfigJsonText& config);

/// The window of all layers, where `sliding_window` is not null.
void read_window(const ConfigJson& config, ModelShape& shape);
void write_window(const ModelShape& shape, ConfigJsonText& config);

/// As the Qwens have it: `sliding_window` counts with use_sliding_window alone, and holds from
/// layer max_window_layers on, or as layer_types says.
void read_late_windows(const ConfigJson& config, ModelShape& shape);
void write_late_windows(const ModelShape& shape, ConfigJsonText& config);

}  // namespace cleave::model
