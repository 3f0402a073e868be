#pragma once

#include "cleave/model/hugging_face.h"

namespace cleave::model {

/// How Hugging Face's tools know models that read texts with images: LLaVA, and beside it SmolVLM.
extern const HuggingFace kVlmNames;

}  // namespace cleave::model
