#include "cleave/train/generate/generate.h"

#include <chrono>

#include "cleave/base/check.h"
#include "cleave/checkpoint/directory.h"
#include "cleave/comm/together.h"

namespace cleave::train {
namespace {

using Clock = std::chrono::steady_clock;

GenerateReport generate_here(const std::filesystem::path& path, const GenerateOptions& options,
                             GenerateObserver& observer, comm::Communicator& world) {
  std::optional<checkpoint::CheckpointReader> checkpoint;
  std::optional<Generator> generator;
  comm::together(world, [&] {
    checkpoint.emplace(checkpoint::find_checkpoint(path), checkpoint::Load::WeightsOnly);
    generator.emplace(*checkpoint, options, world);
  });
  GenerateObserver nobody;
  GenerateObserver& hears = world.rank() == 0 ? observer : nobody;
  const Clock::time_point start = Clock::now();
  GenerateReport report{.checkpoint = checkpoint->path(),
                        .step = checkpoint->state().step,
                        .context = generator->config().model.context};
  for (std::int64_t index = 0; index < generator->texts(); ++index) {
    generator->begin(index);
    GeneratedText text{.prompt = generator->prompt(), .prompt_tokens = generator->prompt_tokens()};
    hears.on_begin(text.prompt);
    while (const auto bytes = generator->next()) {
      text.text += *bytes;
      hears.on_text(*bytes);
    }
    text.tokens = generator->tokens();
    text.stopped = generator->stopped();
    hears.on_end(text);
    report.texts.push_back(std::move(text));
  }
  report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const engine::Decoder& decoder = generator->decoder();
  report.devices = gather_memory({decoder.planned_bytes(), decoder.arena().peak()}, world);
  return report;
}

}  // namespace

std::vector<DeviceMemory> gather_memory(const DeviceMemory& mine, comm::Communicator& world) {
  const int devices = world.size();
  const int device = world.rank();
  std::vector<double> bytes(static_cast<std::size_t>(2 * devices));
  bytes[2 * device] = static_cast<double>(mine.planned_bytes);
  bytes[2 * device + 1] = static_cast<double>(mine.peak_bytes);
  world.combine(bytes, comm::Combine::Sum);
  std::vector<DeviceMemory> memory;
  for (int d = 0; d < devices; ++d) {
    memory.push_back(
        {static_cast<std::int64_t>(bytes[2 * d]), static_cast<std::int64_t>(bytes[2 * d + 1])});
  }
  return memory;
}

GenerateReport generate(const std::filesystem::path& path, const GenerateOptions& options,
                        int devices, GenerateObserver& observer, comm::Launcher& launcher) {
  require(devices >= 1, "--devices ", devices, " must be at least 1");
  GenerateReport report;
  launcher.run(devices, options.threads, [&](comm::Communicator& world) {
    try {
      GenerateReport mine = generate_here(path, options, observer, world);
      if (world.rank() == 0 || launcher.devices()) report = std::move(mine);
    } catch (const comm::PeerFailed&) {
      // The device that failed says why; as a process of its own this one has nothing to add.
      if (launcher.devices()) throw;
    }
  });
  return report;
}

}  // namespace cleave::train
