#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cleave/comm/launcher.h"
#include "cleave/train/config/config.h"
#include "cleave/train/generate/generate.h"

namespace cleave::train {

struct EvaluateOptions {
  std::vector<std::string> data;              ///< paths, one after another
  std::optional<std::int64_t> sequence = {};  ///< tokens; nothing: as the model was trained
  std::optional<int> devices = {};  ///< along the pipeline; nothing: as `overrides` say, or one
  std::vector<std::string> overrides = {};  ///< "parallel.tensor=2"
};

struct EvaluateReport {
  std::filesystem::path checkpoint;
  std::int64_t step = 0;                ///< of the checkpoint
  double loss = 0;                      ///< mean over tokens, in nats
  std::optional<double> accuracy = {};  ///< of a classifier
  std::int64_t tokens = 0;              ///< or labels that were predicted
  std::int64_t data_tokens = 0;         ///< of the data, predicted or not
  std::int64_t sequences = 0;           ///< that the data was cut into; the last one may be shorter
  std::int64_t sequence = 0;            ///< tokens of each
  std::optional<std::int64_t> text_bytes;  ///< of the data; nothing if nobody knows its text
  double seconds = 0;                      ///< without loading
  std::vector<DeviceMemory> devices;

  double perplexity() const;
  std::optional<double> bytes_per_token() const;
  std::optional<double> bits_per_byte() const;
};

/// Hears of an evaluation while it goes on. Called on device 0 only.
class EvaluateObserver {
 public:
  virtual ~EvaluateObserver() = default;
  virtual void on_sequences(std::int64_t /*done*/, std::int64_t /*all*/) {}
};

/// The config by which a model is evaluated: its shape, its number format and its grid as `saved`
/// has them, devices and layout as `options` say. Throws UserError.
Config evaluation_config(const Config& saved, const EvaluateOptions& options,
                         std::optional<std::int64_t> world_size);

/// The loss of the checkpoint at `path` (see checkpoint::find_checkpoint) over all of the data, cut
/// into sequences that do not overlap: a token is predicted from those before it in its sequence.
/// Layouts of one grid give the same bits. Throws UserError, DoesNotFit, DeviceLost;
/// comm::PeerFailed where another rank says what is wrong.
EvaluateReport evaluate(const std::filesystem::path& path, const EvaluateOptions& options,
                        EvaluateObserver& observer, comm::Launcher& launcher);

}  // namespace cleave::train
