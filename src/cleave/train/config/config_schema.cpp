#include "cleave/train/config/config_schema.h"

#include <algorithm>

#include "cleave/train/config/config_sections.h"

namespace cleave::train {
namespace {

std::vector<Key> all_keys() {
  std::vector<Key> keys;
  for (auto section : {model_keys, image_keys, lora_keys, data_keys, template_keys, train_keys,
                       devices_keys, parallel_keys, edge_keys}) {
    std::ranges::move(section(), std::back_inserter(keys));
  }
  return keys;
}

}  // namespace

std::span<const Key> config_keys() {
  static const std::vector<Key> keys = all_keys();
  return keys;
}

}  // namespace cleave::train
