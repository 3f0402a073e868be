#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "command.h"
#include "streams.h"
#include "supervise/child.h"
#include "supervise/launch_line.h"
#include <fmt/format.h>

#include "cleave/base/check.h"

namespace cleave::app {
namespace {

// A launcher that has just ended may still be giving its ports and files back.
constexpr std::chrono::seconds kPause{1};
constexpr std::chrono::milliseconds kSignalLook{20};

struct SuperviseFlags {
  int restarts = 10;
  bool same_ranks = false;
};

/// Whether a rank was lost, or the launcher ended the others because of that. What is wrong with
/// the config, the memory or the disk would be wrong again.
bool was_loss(int code) {
  return code == static_cast<int>(Exit::DeviceLost) || code > 128;
}

/// Whether so many ranks make no layout within the grid of the run.
bool was_impossible(int code) {
  return code == static_cast<int>(Exit::Usage) || code == static_cast<int>(Exit::DoesNotFit);
}

/// False if it was told to end meanwhile.
bool pause() {
  const auto end = std::chrono::steady_clock::now() + kPause;
  while (!was_told_to_end() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(kSignalLook);
  return !was_told_to_end();
}

/// The code of the last attempt, or DeviceLost where it was a loss too many.
int supervise(const SuperviseFlags& flags, const LaunchLine& first) {
  std::optional<int> ranks = flags.same_ranks ? std::nullopt : first.ranks();
  LaunchLine line = first;
  bool fewer = false;  // ranks than at the beginning, and not yet known to make a layout
  for (int restart = 0;;) {
    const int code = run_child(line.words());
    if (code == 0 || was_told_to_end()) return code;
    const bool skips = fewer && was_impossible(code) && *ranks > 1;
    if (!was_loss(code) && !skips) return code;
    if (!skips && ++restart > flags.restarts) {
      complain("cleave supervise: code {}; gives up after {} restarts\n", code, flags.restarts);
      return static_cast<int>(Exit::DeviceLost);
    }
    fewer = ranks && *ranks > 1;
    if (fewer) --*ranks;
    line = first.resumed(fewer ? ranks : std::nullopt);
    complain("cleave supervise: code {}; restart {} of {}{} from the last checkpoint\n", code,
             restart, flags.restarts, fewer ? fmt::format(" with {} ranks", *ranks) : "");
    if (!pause()) return code;
  }
}

}  // namespace

void add_supervise_command(CLI::App& app, Exit& answer) {
  auto flags = std::make_shared<SuperviseFlags>();
  CLI::App* command = app.add_subcommand(
      "supervise",
      "Run COMMAND, cleave train under a launcher, and again without ranks that are lost. All that "
      "follows the options is the command.");
  command->footer(
      "Examples:\n"
      "  cleave supervise mpirun -np 4 cleave train run.toml\n"
      "  cleave supervise --restarts 3 srun --mpi=pmix -n 4 cleave train run.toml");
  command
      ->add_option("--restarts", flags->restarts, "How often the command is started again at most")
      ->capture_default_str();
  command->add_flag("--same-ranks", flags->same_ranks,
                    "Start as many ranks again as before; else one fewer after each loss, in the "
                    "layout that suits them");
  command->prefix_command();
  command->callback([flags, command, &answer] {
    require(flags->restarts >= 0, "--restarts ", flags->restarts, " must not be negative");
    answer = static_cast<Exit>(supervise(*flags, LaunchLine(command->remaining())));
  });
}

}  // namespace cleave::app
