#include <memory>
#include <string>

#include "command.h"
#include "files.h"
#include "json_text.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/train/save/export.h"

namespace cleave::app {
namespace {

struct ExportFlags {
  std::string checkpoint;
  std::string directory;
  std::string dtype = "f32";
  std::string shard_size = "5GB";
  bool merge = false;
  bool as_json = false;
};

void run_export(const ExportFlags& flags) {
  const bool bf16 = flags.dtype == "bf16";
  require(bf16 || flags.dtype == "f32", "--dtype ", flags.dtype, " must be f32 or bf16");
  const checkpoint::WeightFormat format{
      .type = bf16 ? checkpoint::StoredType::BF16 : checkpoint::StoredType::F32,
      .shard_bytes = parse_bytes(flags.shard_size)};
  require(format.shard_bytes >= 1, "--shard-size ", flags.shard_size,
          " must be a size such as 5GB");
  const train::ExportReport report =
      train::export_model(flags.checkpoint, flags.directory, format,
                          flags.merge ? train::Adapters::Merged : train::Adapters::Refused);
  if (flags.as_json) {
    const nlohmann::json all = {{"checkpoint", report.checkpoint.string()},
                                {"path", flags.directory},
                                {"dtype", flags.dtype},
                                {"parameters", report.parameters},
                                {"bytes", report.bytes}};
    return write_file("", json_text(all));
  }
  write_file("", fmt::format("{} parameters of {}, {} in {}, written to {}\n", report.parameters,
                             report.checkpoint.string(), format_bytes(report.bytes), flags.dtype,
                             flags.directory));
}

}  // namespace

void add_export_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("export", "Write a saved model as a Hugging Face directory.");
  auto flags = std::make_shared<ExportFlags>();
  command
      ->add_option(
          "checkpoint", flags->checkpoint,
          "A checkpoint, a run's out directory for its latest, or a Hugging Face directory")
      ->required();
  command->add_option("dir", flags->directory, "Directory to write, which must not exist")
      ->required();
  command->add_option("--dtype", flags->dtype, "Format of the weights: f32 or bf16")
      ->capture_default_str();
  command->add_option("--shard-size", flags->shard_size, "Largest file with weights")
      ->capture_default_str();
  command->add_flag("--merge", flags->merge, "Add low-rank adapters to the weights");
  command->add_flag("--json", flags->as_json, "Print one JSON object");
  command->footer("Example:\n  cleave export out exported --dtype bf16");
  command->callback([flags] { run_export(*flags); });
}

}  // namespace cleave::app
