#pragma once

#include <optional>

#include "cleave/train/config/config_schema.h"

// Values with a form of their own. Setters leave the Config alone and return false on bad ones.
namespace cleave::train {

std::optional<std::int64_t> read_bytes(const Value& value);
Value write_bytes(std::int64_t bytes);  ///< in the largest binary unit that is exact

std::optional<std::string> read_name(const Value& value);  ///< any text but none

bool set_family(Config& config, const Value& value);
std::optional<Value> get_family(const Config& config);
std::string family_rule();  ///< all names
std::vector<Key> lora_keys();
std::vector<Key> template_keys();

std::optional<std::string> read_device_kind(const Value& value);

bool set_emulation(Config& config, const Value& value);
std::optional<Value> get_emulation(const Config& config);

bool set_path(Config& config, const Value& value);
std::optional<Value> get_path(const Config& config);

bool set_validation(Config& config, const Value& value);
std::optional<Value> get_validation(const Config& config);

std::string rope_scaling_rule();
bool set_rope_scaling(Config& config, const Value& value);
std::optional<Value> get_rope_scaling(const Config& config);

bool set_betas(Config& config, const Value& value);
std::optional<Value> get_betas(const Config& config);

bool set_momentum(Config& config, const Value& value);
std::optional<Value> get_momentum(const Config& config);

bool set_curve(Config& config, const Value& value);
std::string curve_rule();  ///< all names

bool set_order(Config& config, const Value& value);
std::optional<Value> get_order(const Config& config);

bool set_grid(Config& config, const Value& value);
std::optional<Value> get_grid(const Config& config);

bool set_offload(Config& config, const Value& value);
std::optional<Value> get_offload(const Config& config);

bool set_partition(Config& config, const Value& value);
std::optional<Value> get_partition(const Config& config);

bool set_recompute(Config& config, const Value& value);
std::optional<Value> get_recompute(const Config& config);

}  // namespace cleave::train
