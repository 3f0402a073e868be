#pragma once

#include "cleave/model/hugging_face.h"

namespace cleave::model {

/// How Hugging Face's tools know models that hold images and texts against each other.
extern const HuggingFace kClipNames;
extern const HuggingFace kSiglipNames;

}  // namespace cleave::model
