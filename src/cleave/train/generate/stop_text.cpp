#include "cleave/train/generate/stop_text.h"

#include <algorithm>
#include <utility>

namespace cleave::train {

std::string StopText::add(std::string_view text) {
  if (found_) return "";
  waiting_ += text;
  std::size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, waiting_.find(stop));
  if (end != std::string::npos) {
    found_ = true;
    return std::exchange(waiting_, {}).substr(0, end);
  }
  std::size_t held = 0;  // bytes at the end that some string begins with
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, waiting_.size()); length > held; --length) {
      if (waiting_.ends_with(std::string_view(stop).substr(0, length))) held = length;
    }
  }
  const std::string shown = waiting_.substr(0, waiting_.size() - held);
  waiting_.erase(0, shown.size());
  return shown;
}

std::string StopText::finish() {
  return found_ ? "" : std::exchange(waiting_, {});
}

}  // namespace cleave::train
