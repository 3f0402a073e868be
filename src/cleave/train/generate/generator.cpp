#include "cleave/train/generate/generator.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "cleave/base/check.h"
#include "cleave/base/tensor_sum.h"
#include "cleave/ops/elementwise.h"
#include "cleave/train/save/saving.h"

namespace cleave::train {
namespace {

void check(const GenerateOptions& options) {
  require(options.tokens >= 1, "--tokens ", options.tokens, " must be at least 1");
  require(std::isfinite(options.sample.temperature) && options.sample.temperature >= 0,
          "--temperature ", options.sample.temperature,
          " must be 0 (always the likeliest token) or more");
  require(options.sample.top_k >= 0, "--top-k ", options.sample.top_k,
          " must be 0 (all tokens) or more");
  require(options.threads >= 1, "--threads ", options.threads, " must be at least 1");
}

std::vector<std::int32_t> prompt_of(const GenerateOptions& options, const Config& config) {
  const std::int64_t vocabulary = config.model.vocab;
  const Tokens tokens = tokens_of(config);
  std::vector<std::int32_t> prompt = tokenize(options.prompt, tokens, vocabulary);
  const std::int64_t context = config.model.context;
  require(static_cast<std::int64_t>(prompt.size()) <= context, "the prompt has ", prompt.size(),
          " tokens, and the model's context is ", context, "; shorten the prompt");
  if (prompt.empty()) prompt.push_back(tokens == Tokens::Bytes && vocabulary > '\n' ? '\n' : 0);
  return prompt;
}

/// Positions that will be read: the last token that is drawn never is.
std::int64_t length_of(std::size_t prompt, const GenerateOptions& options, const Config& config) {
  const std::int64_t most = config.model.context;
  const auto first = static_cast<std::int64_t>(prompt);
  return options.tokens > most ? most : std::min(most, first + options.tokens - 1);
}

/// Checks every weight against the manifest while reading it.
void load_weights(const checkpoint::CheckpointReader& checkpoint, engine::Decoder& decoder) {
  std::map<std::string_view, std::uint64_t> sums;
  for (const checkpoint::Manifest::Entry& entry : checkpoint.manifest().files) {
    for (const checkpoint::Manifest::Tensor& tensor : entry.tensors) sums[tensor.name] = tensor.sum;
  }
  const View staging = decoder.staging();
  for (const auto& weight : decoder.weights()) {
    const std::int64_t count = weight.value.elements();
    std::uint64_t sum = 0;
    for (std::int64_t first = 0; first < count; first += staging.elements()) {
      const std::int64_t here = std::min(staging.elements(), count - first);
      const View piece = staging.slice(0, 0, here);
      checkpoint.read_weight(weight.name, first,
                             {piece.as<float>(), static_cast<std::size_t>(here)});
      sum += tensor_sum({piece.bytes(), static_cast<std::size_t>(piece.byte_count())}, first);
      ops::copy(decoder.compute(), piece, weight.value.reshaped({count}).slice(0, first, here));
    }
    require(sum == sums[weight.name], (checkpoint.path() / checkpoint::kModelFile).string(),
            " has tensor \"", weight.name, "\" with a wrong checksum; use another checkpoint");
  }
}

}  // namespace

Tokens tokens_of(const Config& config) {
  const bool numbers = !config.data.path.empty() && config.data.path[0].path.ends_with(".bin");
  return numbers ? Tokens::Numbers : Tokens::Bytes;
}

std::vector<std::int32_t> tokenize(std::string_view text, Tokens tokens, std::int64_t vocabulary) {
  std::vector<std::int32_t> out;
  if (tokens == Tokens::Bytes) {
    for (char byte : text) out.push_back(static_cast<unsigned char>(byte));
  } else {
    const char* end = text.data() + text.size();
    for (const char* at = text.data(); at != end;) {
      if (*at == ' ') {
        ++at;
        continue;
      }
      std::int32_t token = 0;
      const auto [next, error] = std::from_chars(at, end, token);
      require(error == std::errc() && (next == end || *next == ' '), "the prompt \"", text,
              "\" is no list of tokens; this model was trained on a .bin file, so give numbers "
              "like \"17 4 251\"");
      out.push_back(token);
      at = next;
    }
  }
  for (std::int32_t token : out) {
    require(token >= 0 && token < vocabulary, "the prompt has token ", token,
            ", and the model's vocabulary ends at ", vocabulary - 1);
  }
  return out;
}

Generator::Generator(const checkpoint::CheckpointReader& checkpoint, const GenerateOptions& options,
                     comm::Communicator& world)
    : options_((check(options), options)),
      config_(config_of(checkpoint)),
      world_(world),
      prompt_(prompt_of(options, config_)),
      decoder_(config_.model, {.dtype = config_.train.dtype,
                               .length = length_of(prompt_.size(), options, config_),
                               .threads = options.threads,
                               .budget = options.budget,
                               .world = &world}),
      random_(static_cast<std::uint64_t>(options.seed), "generate"),
      pending_(prompt_) {
  world.set_patience(comm::kUsualPatience);
  checkpoint.expect(
      checkpoint_layout(model::graph_of(config_.model, {.sequence = 1})).parameters());
  load_weights(checkpoint, decoder_);
}

bool Generator::context_is_full() const {
  return decoder_.position() + static_cast<std::int64_t>(pending_.size()) > config_.model.context;
}

std::optional<std::int32_t> Generator::next() {
  if (drawn_ == options_.tokens || context_is_full()) return std::nullopt;
  const std::span<const float> logits = decoder_.append(pending_);
  std::int32_t token = 0;
  if (!logits.empty()) {
    const float uniform = random_.uniform(static_cast<std::uint64_t>(drawn_));
    token = ops::sample(logits, options_.sample, uniform);
  }
  // The last device alone has seen the logits.
  world_.broadcast(std::as_writable_bytes(std::span(&token, 1)), world_.size() - 1).wait();
  pending_.assign(1, token);
  ++drawn_;
  return token;
}

}  // namespace cleave::train
