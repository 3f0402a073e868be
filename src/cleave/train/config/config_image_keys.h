#pragma once

#include "cleave/train/config/config_schema.h"

namespace cleave::train {

/// A key that only models which read tokens have; the others neither show nor save it.
Key of_tokens(Key key);

/// "data.images", for models that read images and tokens.
Key images_key();
Key cache_key();

/// "data.augment", for models that read images.
Key augment_key();

}  // namespace cleave::train
