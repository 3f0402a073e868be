#pragma once

#include <string_view>

namespace cleave::report {

/// The files beside this header, compiled in. The frame has places {{title}}, {{style}}, {{data}},
/// {{draw}} and {{script}}.
extern const std::string_view kPageFrame;
extern const std::string_view kPageStyle;
extern const std::string_view kPageDraw;
extern const std::string_view kPageScript;

}  // namespace cleave::report
