#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/base/philox.h"
#include "cleave/checkpoint/reader.h"
#include "cleave/engine/decode/decoder.h"
#include "cleave/ops/sample.h"
#include "cleave/train/config/config.h"

namespace cleave::train {

/// How the text of a model and its tokens belong together.
enum class Tokens : std::uint8_t {
  Bytes,    ///< one token per byte
  Numbers,  ///< from a .bin file by a tokenizer that cleave does not know: "17 4 251"
};

/// What a run with this config was trained on.
Tokens tokens_of(const Config& config);

/// Throws UserError for a token outside the vocabulary, or for what is no list of numbers.
std::vector<std::int32_t> tokenize(std::string_view text, Tokens tokens, std::int64_t vocabulary);

struct GenerateOptions {
  std::string prompt;         ///< empty: begins as after a newline (Bytes) or token 0 (Numbers)
  std::int64_t tokens = 200;  ///< to generate
  ops::SampleOptions sample;
  std::int64_t seed = 1;
  int threads = 1;                          ///< of each device
  std::optional<std::int64_t> budget = {};  ///< bytes, of each device
};

/// Samples from a saved model, on one device or on all of a world, each with a stage of the model.
/// The same checkpoint, options, threads and processor give the same tokens on any number of them.
class Generator {
 public:
  /// Loads the weights of this device. Throws UserError: bad options, a prompt longer than the
  /// model's context, a checkpoint that is damaged or does not fit its own config; DoesNotFit.
  Generator(const checkpoint::CheckpointReader& checkpoint, const GenerateOptions& options,
            comm::Communicator& world);

  /// The next token, on all devices; nothing when `tokens` were drawn, or the context is full.
  /// There is no sliding on: a model has not learned what to do past its context.
  std::optional<std::int32_t> next();

  Tokens tokens() const { return tokens_of(config_); }
  std::int64_t drawn() const { return drawn_; }
  std::int64_t prompt_tokens() const { return static_cast<std::int64_t>(prompt_.size()); }
  bool context_is_full() const;
  const Config& config() const { return config_; }
  const engine::Decoder& decoder() const { return decoder_; }

 private:
  GenerateOptions options_;
  Config config_;
  comm::Communicator& world_;
  std::vector<std::int32_t> prompt_;
  engine::Decoder decoder_;
  Philox random_;
  std::vector<std::int32_t> pending_;  ///< not read by the model yet
  std::int64_t drawn_ = 0;
};

}  // namespace cleave::train
