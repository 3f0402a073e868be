#pragma once

#include <cstdint>
#include <string>

#include "cleave/spec/layers.h"
#include "cleave/spec/window_spec.h"

namespace cleave::spec {

// Layers that slide squares over images, as those in layers.h. A sequence of the flow is an image,
// with its channels side by side: [samples, height · width · channels].

/// kind "convolution": y [samples, places · out]; parameters weight [out, channels · size²], bias
/// [out].
LayerSpec convolution(const std::string& name, const Flow& flow, const WindowShape& window,
                      std::int64_t out);

/// kind "max_pool": y [samples, places · channels].
LayerSpec max_pool(const std::string& name, const Flow& flow, const WindowShape& window);

/// kind "relu".
LayerSpec relu(const std::string& name, const Flow& flow, std::int64_t features);

/// kind "channels_first": channels side by side become channels one after another.
LayerSpec channels_first(const std::string& name, const Flow& flow, std::int64_t features,
                         std::int64_t channels);

}  // namespace cleave::spec
