#include "cleave/train/save/background_saver.h"

#include <array>
#include <chrono>
#include <cstring>
#include <system_error>

#include "cleave/base/check.h"
#include "cleave/checkpoint/writer.h"

namespace cleave::train {

using Clock = std::chrono::steady_clock;

void BackgroundSaver::begin(std::int64_t step) {
  CLEAVE_CHECK(phase_ == Phase::Idle, "step ", current_.step, " is still being saved");
  const Clock::time_point since = Clock::now();
  runs_.clear();
  std::span<std::byte> room = at_.device->staging();
  for_each_saved_run(at_, Lasting::OneStep,
                     [&](checkpoint::Part part, std::size_t parameter, std::int64_t first,
                         std::span<const float> elements) {
                       CLEAVE_CHECK(elements.size_bytes() <= room.size(),
                                    "the copy of the state has no room");
                       std::memcpy(room.data(), elements.data(), elements.size_bytes());
                       const auto* copy = reinterpret_cast<const float*>(room.data());
                       runs_.push_back({part, parameter, first, {copy, elements.size()}});
                       room = room.subspan(elements.size_bytes());
                     });
  current_ = {step, std::chrono::duration<double>(Clock::now() - since).count()};
  start(Phase::Prepare);
}

std::optional<BackgroundSaver::Saved> BackgroundSaver::advance(Wait wait) {
  const Clock::time_point since = Clock::now();
  while (phase_ != Phase::Idle) {
    if (wait == Wait::UntilSaved && work_.valid()) work_.wait();
    if (!all_ready()) {
      if (wait == Wait::No) break;
      continue;
    }
    if (phase_ == Phase::Commit) {
      phase_ = Phase::Idle;
      current_.pause += std::chrono::duration<double>(Clock::now() - since).count();
      return current_;
    }
    start(phase_ == Phase::Prepare ? Phase::Write : Phase::Commit);
  }
  return std::nullopt;
}

void BackgroundSaver::start(Phase phase) {
  phase_ = phase;
  try {
    work_ = std::async(std::launch::async, [this, phase] { work(phase); });
  } catch (const std::system_error&) {
    // The system has no thread for it: training pauses instead.
    std::packaged_task<void()> task([this, phase] { work(phase); });
    work_ = task.get_future();
    task();
  }
}

void BackgroundSaver::work(Phase phase) const {
  if (phase == Phase::Prepare && at_.is_first()) {
    checkpoint::prepare_checkpoint(at_.root(), current_.step, *at_.layout);
  }
  if (phase == Phase::Write) {
    checkpoint::CheckpointWriter writer(at_.root(), current_.step, *at_.layout, at_.index());
    for (const Run& run : runs_) writer.write(run.part, run.parameter, run.first, run.elements);
    // Needs no copy: training only reads it.
    for_each_saved_run(
        at_, Lasting::Always,
        [&](checkpoint::Part part, std::size_t parameter, std::int64_t first,
            std::span<const float> run) { writer.write(part, parameter, first, run); });
    writer.finish();
  }
  if (phase == Phase::Commit && at_.is_first()) commit(at_, current_.step);
}

bool BackgroundSaver::all_ready() {
  const bool ready =
      !work_.valid() || work_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  // A failure ends the run: the others are told as they are of any other.
  if (ready && work_.valid()) work_.get();
  std::array<double, 1> least = {ready ? 1.0 : 0.0};
  at_.world->combine(least, comm::Combine::Min);
  return least[0] > 0;
}

}  // namespace cleave::train
