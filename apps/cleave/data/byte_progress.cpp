#include "byte_progress.h"

#include <algorithm>

#include "streams.h"
#include <unistd.h>

namespace cleave::app {
namespace {

constexpr int kBarColumns = 30;

}  // namespace

ByteProgress::ByteProgress(std::string what, std::int64_t total)
    : what_(std::move(what)),
      total_(std::max<std::int64_t>(total, 1)),
      terminal_(::isatty(STDERR_FILENO) == 1) {}

ByteProgress::~ByteProgress() {
  if (terminal_) complain("\r\x1b[K");
}

void ByteProgress::show(std::int64_t done) {
  done_ = done;
  const auto now = Clock::now();
  if (!terminal_ || now - shown_ < std::chrono::milliseconds(100)) return;
  shown_ = now;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const int filled = static_cast<int>(share * kBarColumns);
  std::string bar;
  for (int i = 0; i < kBarColumns; ++i) bar += i < filled ? "━" : "─";
  const double left = share > 0 ? seconds / share - seconds : 0;
  complain("\r\x1b[K{} {} {:3.0f}%  {:.0f} s left", what_, bar, 100 * share, left);
}

}  // namespace cleave::app
