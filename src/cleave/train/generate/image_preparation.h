#pragma once

#include <filesystem>

#include "cleave/data/image/pack.h"
#include "cleave/model/model_shape.h"

namespace cleave::train {

/// How a Hugging Face directory has images made ready for its model: preprocessor_config.json, or
/// the image_processor of processor_config.json. Throws UserError, naming the key, if neither is
/// there or they ask for what is not done here. An image is one tile, also where
/// do_image_splitting would cut it into several.
data::PackOptions image_preparation(const std::filesystem::path& directory,
                                    const ModelShape& shape);

}  // namespace cleave::train
