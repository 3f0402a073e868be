#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "serve/recovery.h"
#include "train/train_output.h"

#include "cleave/comm/tcp/server.h"

namespace cleave::app {

/// How far a served run is, from one plan to the next.
struct ServedProgress {
  int epochs = 0;                           ///< that are over
  std::int64_t step = 0;                    ///< done
  std::string saved;                        ///< the last checkpoint of this run; empty: none yet
  std::optional<Recovery> recovery;         ///< until the next step is done
  comm::RunStatus status;                   ///< what those are told who ask
  std::vector<train::RunEvent> early = {};  ///< what happened before the run had a log
};

/// What the run's user sees of one epoch, and what those see who ask the server.
class ServedOutput final : public TrainOutput {
 public:
  /// Where what happened goes.
  using NoteEvent = std::function<void(const train::RunEvent& event)>;

  /// All must outlive it.
  ServedOutput(const train::Config& config, Style style, comm::Server& server,
               ServedProgress& progress, NoteEvent note_event);

  void on_compiled(const engine::CompiledStep& step) override;
  void on_predicted(double step_seconds) override;
  void on_resumed(std::int64_t step, const std::string& from, const std::string& changed) override;
  void on_step(const train::StepReport& step) override;
  void on_saved(std::int64_t step, const std::string& directory, double pause) override;

 private:
  const train::Config& config_;
  comm::Server& server_;
  ServedProgress& progress_;
  NoteEvent note_event_;
};

/// How long a device may show no life before it is lost, where a step takes so many seconds.
comm::Clock::duration longest_silence(double step_seconds);

}  // namespace cleave::app
