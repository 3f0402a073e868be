#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "data/byte_progress.h"
#include "files.h"
#include "json_text.h"
#include "ranks.h"
#include "streams.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cleave/base/check.h"
#include "cleave/base/units.h"
#include "cleave/comm/together.h"
#include "cleave/engine/measure/machine.h"
#include "cleave/train/evaluate/evaluate.h"

namespace cleave::app {
namespace {

struct EvaluateFlags {
  std::string path;
  train::EvaluateOptions options;
  int threads = 1;
  bool json = false;
};

class EvaluateBar : public train::EvaluateObserver {
 public:
  void on_sequences(std::int64_t done, std::int64_t all) override {
    if (!bar_) bar_.emplace("evaluating", all);
    bar_->show(done);
  }

 private:
  std::optional<ByteProgress> bar_;
};

nlohmann::json or_null(const std::optional<double>& number) {
  return number ? nlohmann::json(*number) : nlohmann::json();
}

void write_json(const train::EvaluateReport& report) {
  nlohmann::json devices = nlohmann::json::array();
  for (const train::DeviceMemory& device : report.devices)
    devices.push_back({{"planned_bytes", device.planned_bytes}, {"peak_bytes", device.peak_bytes}});
  const nlohmann::json object = {
      {"checkpoint", report.checkpoint.string()},
      {"step", report.step},
      {"loss", report.loss},
      {"accuracy", or_null(report.accuracy)},
      {"tokens", report.tokens},
      {"perplexity", report.perplexity()},
      {"bytes_per_token", or_null(report.bytes_per_token())},
      {"bits_per_byte", or_null(report.bits_per_byte())},
      {"sequence", report.sequence},
      {"sequences", report.sequences},
      {"seconds", report.seconds},
      {"tokens_per_second", static_cast<double>(report.tokens) / report.seconds},
      {"devices", devices}};
  write_file("", json_text(object));
}

void write_memory(const train::EvaluateReport& report) {
  std::string memory;
  for (const train::DeviceMemory& device : report.devices)
    memory += (memory.empty() ? "" : " + ") + format_bytes(device.planned_bytes);
  complain("{} after step {}: {} of memory, {} ({:.0f} tokens/s)\n", report.checkpoint.string(),
           report.step, memory, format_seconds(report.seconds),
           static_cast<double>(report.tokens) / report.seconds);
}

void write_text(const train::EvaluateReport& report) {
  if (report.accuracy) {
    write_file("", fmt::format("loss {:.4f}, accuracy {:.2f} % of {} samples\n", report.loss,
                               100 * *report.accuracy, report.sequences));
    return write_memory(report);
  }
  std::string text = fmt::format("loss {:.4f} (nats per token), perplexity {:.4g}", report.loss,
                                 report.perplexity());
  if (const auto bits = report.bits_per_byte())
    text += fmt::format(", {:.4f} bits per byte", *bits);
  text += fmt::format("\n{} tokens in {} sequences of {}", report.tokens, report.sequences,
                      report.sequence);
  if (const auto bytes = report.bytes_per_token())
    text += fmt::format(", {:.2f} bytes per token", *bytes);
  write_file("", text + '\n');
  write_memory(report);
}

void evaluate(EvaluateFlags& flags, comm::Launcher& launcher) {
  const bool first = launcher.processes().rank() == 0;
  comm::together(launcher.processes(), [&] {
    check_devices(flags.options.devices, launcher);
    require(flags.threads >= 1, "--threads ", flags.threads, " must be at least 1");
  });
  flags.options.overrides.insert(flags.options.overrides.begin(),
                                 fmt::format("devices.threads={}", flags.threads));
  const std::string warning = engine::thread_warning(flags.threads, engine::allowed_threads());
  if (first && !warning.empty()) complain("cleave: warning: {}\n", warning);
  train::EvaluateReport report;
  {
    EvaluateBar bar;
    report = train::evaluate(flags.path, flags.options, bar, launcher);
  }
  if (first) flags.json ? write_json(report) : write_text(report);
}

}  // namespace

void add_evaluate_command(CLI::App& app) {
  auto flags = std::make_shared<EvaluateFlags>();
  train::EvaluateOptions& options = flags->options;
  CLI::App* command = app.add_subcommand("evaluate", "Find the loss of a trained model over data.");
  command->footer(
      "The data is cut into sequences that do not overlap, and all of it counts: a token is "
      "predicted from those before it in its sequence. Layouts of one grid give the same bits.\n"
      "\nExamples:\n"
      "  cleave evaluate out --data held_out.txt\n"
      "  cleave evaluate out --data held_out.bin --sequence 512 --devices 2 --json\n"
      "  cleave evaluate out --data held_out.txt --set parallel.data=2 --set devices.memory=96MiB");
  command->add_option("dir", flags->path, "A checkpoint, or a run's out directory for its latest")
      ->required();
  command
      ->add_option("--data", options.data,
                   "What data.path of a config may name; may be given several times")
      ->required()
      ->expected(1)
      ->take_all();
  command->add_option("--sequence", options.sequence,
                      "Tokens per sequence (default: as the model was trained)");
  command->add_option("--devices", options.devices,
                      "Share the model between this many threads; under mpirun: its processes");
  command->add_option("--threads", flags->threads, "Of each device")->capture_default_str();
  command
      ->add_option("--set", options.overrides,
                   "Override a key of the config: parallel.tensor=2 (repeatable)")
      ->allow_extra_args(false);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback(
      [flags] { on_ranks([&](comm::Launcher& launcher) { evaluate(*flags, launcher); }); });
}

}  // namespace cleave::app
