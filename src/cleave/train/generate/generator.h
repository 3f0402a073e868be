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
#include "cleave/train/generate/model_text.h"
#include "cleave/train/generate/prompt_images.h"
#include "cleave/train/generate/stop_text.h"

namespace cleave::train {

struct GenerateOptions {
  std::vector<std::string> prompts = {""};  ///< an empty one: what a document begins with
  std::vector<std::string> images = {};     ///< files, which every prompt is about
  /// Conversations to answer; each prompt is only shown. Without any, prompts are continued.
  std::vector<std::vector<data::ChatMessage>> conversations = {};
  std::int64_t samples = 1;   ///< of each prompt
  std::int64_t tokens = 200;  ///< to generate for each
  ops::SampleOptions sample;
  std::vector<std::string> stops = {};  ///< text ends before any of these
  bool past_end = false;                ///< go on after the tokenizer's end token
  std::int64_t seed = 1;
  int threads = 1;                          ///< of each device
  std::optional<std::int64_t> budget = {};  ///< bytes, of each device
};

/// Why a text is no longer.
enum class Stopped : std::uint8_t { Tokens, Context, End, StopString };

std::string_view to_string(Stopped stopped);

/// Samples from a saved model, on one device or on all of a world, each with a stage of the model.
/// The same checkpoint, options, threads and processor give the same tokens on any number of them.
class Generator {
 public:
  /// Loads the weights of this device. Throws UserError: bad options, a prompt longer than the
  /// model's context, a checkpoint that is damaged or does not fit its own config; DoesNotFit. The
  /// checkpoint outlives this.
  Generator(const checkpoint::CheckpointReader& checkpoint, const GenerateOptions& options,
            comm::Communicator& world);

  /// Texts to generate: every prompt as often as samples are wanted.
  std::int64_t texts() const;

  /// Begins text `index`; what was read before is forgotten. Text 0 has begun.
  void begin(std::int64_t index);

  /// The next bytes of the text, on all devices, often empty; nothing when it has ended, and then
  /// stopped() says why. A context is not slid on: a model has not learned what to do past it.
  /// Throws NonFinite, naming a weight, where there is nothing to draw from.
  std::optional<std::string> next();

  Stopped stopped() const { return stopped_; }
  /// What was drawn for this text.
  const std::vector<std::int32_t>& tokens() const { return drawn_; }
  const std::string& prompt() const;
  std::int64_t prompt_tokens() const { return prompt_tokens_; }
  const Config& config() const { return config_; }
  const engine::Decoder& decoder() const { return decoder_; }

 private:
  bool has_ended();
  bool has_ended_turn() const;
  std::int32_t draw();

  const checkpoint::CheckpointReader& checkpoint_;
  GenerateOptions options_;
  Config config_;
  comm::Communicator& world_;
  ModelText text_;
  std::vector<data::PlacedText> prompts_;
  PromptImages images_;  ///< on the first device
  std::vector<std::string> stops_;
  std::vector<std::int32_t> turn_end_;  ///< of an answer; empty: nothing ends it
  engine::Decoder decoder_;
  Philox random_;
  std::int64_t index_ = 0;
  std::int64_t prompt_tokens_ = 0;
  std::vector<std::int32_t> pending_;  ///< not read by the model yet
  std::vector<std::int32_t> seen_;     ///< prompt and drawn tokens
  std::vector<std::int32_t> drawn_;
  std::optional<ModelTextStream> stream_;
  std::optional<StopText> stop_text_;
  Stopped stopped_ = Stopped::Tokens;
  bool finished_ = false;
};

}  // namespace cleave::train
