#pragma once

#include <vector>

#include "cleave/train/config/config_schema.h"

// The keys of each section, as config_keys() joins them. A section's file also has the forms of
// values that only its keys take: setters leave the Config alone and return false on bad ones.
namespace cleave::train {

std::vector<Key> model_keys();
std::vector<Key> image_keys();  ///< of [model], [model.vision], …, for models that read images
std::vector<Key> lora_keys();
std::vector<Key> data_keys();
std::vector<Key> template_keys();  ///< of [data.template]
std::vector<Key> train_keys();
std::vector<Key> devices_keys();
std::vector<Key> parallel_keys();  ///< and of [numerics]
std::vector<Key> edge_keys();

}  // namespace cleave::train
