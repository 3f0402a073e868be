#include <memory>
#include <string>

#include "command.h"
#include "files.h"
#include "json_text.h"
#include <nlohmann/json.hpp>

#include "cleave/checkpoint/directory.h"
#include "cleave/checkpoint/inspect.h"
#include "cleave/checkpoint/reader.h"

namespace cleave::app {
namespace {

struct CheckpointFlags {
  std::string path;
  bool as_json = false;
};

void inspect(const CheckpointFlags& flags) {
  const auto path = checkpoint::find_checkpoint(flags.path);
  const bool foreign = checkpoint::CheckpointReader::is_foreign(path);
  const checkpoint::CheckpointReader checkpoint(
      path, foreign ? checkpoint::Load::WeightsOnly : checkpoint::Load::Everything);
  write_file("", flags.as_json ? inspect_json(checkpoint) : inspect_text(checkpoint));
}

void verify(const CheckpointFlags& flags, Exit& answer) {
  const auto path = checkpoint::find_checkpoint(flags.path);
  const bool foreign = checkpoint::CheckpointReader::is_foreign(path);
  const std::vector<std::string> problems = checkpoint::verify_checkpoint(
      path, foreign ? checkpoint::Load::WeightsOnly : checkpoint::Load::Everything);
  if (!problems.empty()) answer = Exit::Failed;
  if (flags.as_json) {
    const nlohmann::json all = {
        {"path", path.string()}, {"verified", problems.empty()}, {"problems", problems}};
    return write_file("", json_text(all));
  }
  std::string text = problems.empty() ? "verified: " + path.string() + '\n' : "";
  for (const std::string& problem : problems) text += problem + '\n';
  write_file("", text);
}

CLI::App* add_verb(CLI::App& checkpoint, const std::string& name, const std::string& about,
                   const std::shared_ptr<CheckpointFlags>& flags) {
  CLI::App* verb = checkpoint.add_subcommand(name, about);
  verb->add_option(
          "dir", flags->path,
          "A checkpoint, a run's out directory for its latest, or a Hugging Face directory")
      ->required();
  verb->add_flag("--json", flags->as_json, "Print one JSON object");
  verb->footer("Example:\n  cleave checkpoint " + name + " out");
  return verb;
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Exit& answer) {
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "Look at a saved model, or check it.");
  checkpoint->require_subcommand(1);
  checkpoint->footer("Example:\n  cleave checkpoint verify out/checkpoints/step-00000100");
  auto flags = std::make_shared<CheckpointFlags>();
  add_verb(*checkpoint, "inspect", "Print step, tensors and config.", flags)->callback([flags] {
    inspect(*flags);
  });
  add_verb(*checkpoint, "verify",
           "Read everything and compare checksums: exit 0, or 1 and a line per damage.", flags)
      ->callback([flags, &answer] { verify(*flags, answer); });
}

}  // namespace cleave::app
