#pragma once

#include <string_view>

namespace cleave::app {

// The files of this folder, compiled in. The frame has {{title}}, {{style}}, {{data}}, {{script}}.
extern const std::string_view kWatchFrame;
extern const std::string_view kWatchStyle;
extern const std::string_view kWatchScript;

}  // namespace cleave::app
