#pragma once

#include <filesystem>
#include <vector>

#include "cleave/comm/launcher.h"
#include "cleave/train/generate/generator.h"

namespace cleave::train {

/// What one device used.
struct DeviceMemory {
  std::int64_t planned_bytes = 0;
  std::int64_t peak_bytes = 0;  ///< measured
};

/// [device] -> what each of `world` used, on all of them; all call it together.
std::vector<DeviceMemory> gather_memory(const DeviceMemory& mine, comm::Communicator& world);

/// What was generated for one prompt.
struct GeneratedText {
  std::string prompt;
  std::int64_t prompt_tokens = 0;
  std::string text;  ///< bytes after the prompt
  std::vector<std::int32_t> tokens;
  Stopped stopped = Stopped::Tokens;
};

struct GenerateReport {
  std::filesystem::path checkpoint;
  std::int64_t step = 0;  ///< of the checkpoint
  std::int64_t context = 0;
  std::vector<GeneratedText> texts;
  double seconds = 0;  ///< without loading
  std::vector<DeviceMemory> devices;
};

/// Hears of a generation while it goes on. Called on device 0 only.
class GenerateObserver {
 public:
  virtual ~GenerateObserver() = default;
  virtual void on_begin(const std::string& /*prompt*/) {}  ///< of a text; the model is loaded
  virtual void on_text(std::string_view /*bytes*/) {}
  virtual void on_end(const GeneratedText&) {}
};

/// Samples from the checkpoint at `path` (see checkpoint::find_checkpoint) on `devices` threads of
/// this process if `world` is null, else as one device of it. The report is that of all devices.
/// Throws what Generator throws; comm::PeerFailed where another rank says what is wrong.
GenerateReport generate(const std::filesystem::path& path, const GenerateOptions& options,
                        int devices, GenerateObserver& observer, comm::Launcher& launcher);

}  // namespace cleave::train
