#include "cleave/train/generate/generator.h"

#include <algorithm>
#include <cmath>

#include "cleave/base/check.h"
#include "cleave/checkpoint/non_finite.h"
#include "cleave/comm/together.h"
#include "cleave/model/family.h"
#include "cleave/train/save/adapters.h"
#include "cleave/train/save/load_weights.h"
#include "cleave/train/save/saving.h"
#include "cleave/train/step/numerics.h"

namespace cleave::train {
namespace {

constexpr std::int32_t kNoToken = -1;  // logits to draw from are not finite

void check(const GenerateOptions& options) {
  require(options.tokens >= 1, "--tokens ", options.tokens, " must be at least 1");
  require(std::isfinite(options.sample.temperature) && options.sample.temperature >= 0,
          "--temperature ", options.sample.temperature,
          " must be 0 (always the likeliest token) or more");
  require(options.sample.top_k >= 0, "--top-k ", options.sample.top_k,
          " must be 0 (all tokens) or more");
  const auto is_share = [](float value) {
    return std::isfinite(value) && value >= 0 && value <= 1;
  };
  require(is_share(options.sample.top_p) && options.sample.top_p > 0, "--top-p ",
          options.sample.top_p, " must be above 0 and at most 1 (all tokens)");
  require(is_share(options.sample.min_p), "--min-p ", options.sample.min_p,
          " must be from 0 (all tokens) to 1");
  require(std::isfinite(options.sample.repetition_penalty) && options.sample.repetition_penalty > 0,
          "--repetition-penalty ", options.sample.repetition_penalty,
          " must be above 0; 1 is none");
  require(options.samples >= 1, "--samples ", options.samples, " must be at least 1");
  require(!options.prompts.empty(), "there is no prompt; give --prompt or --prompt-file");
  CLEAVE_CHECK(
      options.conversations.empty() || options.conversations.size() == options.prompts.size(),
      options.conversations.size(), " conversations, ", options.prompts.size(), " prompts");
  for (const std::string& stop : options.stops) require(!stop.empty(), "--stop must not be empty");
  require(options.threads >= 1, "--threads ", options.threads, " must be at least 1");
}

/// The saved config of a model that writes text.
Config config_of_writer(const checkpoint::CheckpointReader& checkpoint) {
  Config config = config_of(checkpoint);
  require(config.model.classes == 0, checkpoint.path().string(), " has a model of kind ",
          config.model.kind->name,
          ", which tells images apart and writes no text; cleave evaluate says how well it does");
  require(!config.model.kind->pairs, checkpoint.path().string(), " has a model of kind ",
          config.model.kind->name,
          ", which holds images and texts against each other and writes none; cleave evaluate says "
          "how well it does");
  return config;
}

std::vector<data::PlacedText> prompts_of(const GenerateOptions& options, const ModelText& text,
                                         const Config& config) {
  const bool reads_both = config.model.kind->reads_images && config.model.kind->reads_tokens;
  require(options.images.empty() || reads_both,
          "--image is for models that read images and text, and this is a ",
          config.model.kind->name, "; leave it out");
  require(
      options.images.empty() || options.conversations.empty(),
      "--image goes with --prompt, which is answered as it is; leave out --chat and --messages");
  std::vector<data::PlacedText> prompts;
  const std::int64_t context = config.model.context;
  for (const auto& messages : options.conversations)
    prompts.push_back({text.conversation(messages, config.model.vocab), {}});
  if (prompts.empty()) {
    for (const std::string& prompt : options.prompts)
      prompts.push_back(
          reads_both ? placed_prompt(prompt, std::ssize(options.images), config, text.tokenizer())
                     : data::PlacedText{text.prompt(prompt, config.model.vocab), {}});
  }
  for (const data::PlacedText& prompt : prompts)
    require(std::ssize(prompt.tokens) <= context, "the prompt has ", prompt.tokens.size(),
            " tokens, and the model's context is ", context, "; shorten the prompt");
  return prompts;
}

/// Positions that will be read at most: the last token that is drawn never is.
std::int64_t length_of(const std::vector<data::PlacedText>& prompts, const GenerateOptions& options,
                       const Config& config) {
  const std::int64_t most = config.model.context;
  if (options.tokens > most) return most;
  std::int64_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, std::ssize(prompt.tokens));
  return std::min(most, longest + options.tokens - 1);
}

}  // namespace

std::string_view to_string(Stopped stopped) {
  switch (stopped) {
    case Stopped::Tokens:
      return "tokens";
    case Stopped::Context:
      return "context";
    case Stopped::End:
      return "end";
    case Stopped::StopString:
      return "stop";
  }
  return "";
}

Generator::Generator(const checkpoint::CheckpointReader& checkpoint, const GenerateOptions& options,
                     comm::Communicator& world)
    : checkpoint_(checkpoint),
      options_((check(options), options)),
      config_(config_of_writer(checkpoint)),
      world_(world),
      text_(checkpoint.path(), config_),
      prompts_(prompts_of(options, text_, config_)),
      images_(world.rank() == 0 ? options.images : std::vector<std::string>{}, checkpoint, config_,
              {.threads = options.threads, .budget = options.budget}),
      stops_(options.stops),
      decoder_(config_.model, {.dtype = config_.train.dtype,
                               .length = length_of(prompts_, options, config_),
                               .threads = options.threads,
                               .arithmetic = arithmetic_of(config_),
                               .budget = options.budget,
                               .world = &world}),
      random_(static_cast<std::uint64_t>(options.seed), "generate") {
  world.set_patience(comm::kUsualPatience);
  if (!options.conversations.empty() && !options.past_end && !text_.turn_end().empty()) {
    stops_.push_back(text_.turn_end());
    turn_end_ = text_.turn_end_tokens();
  }
  Graph saved = model::graph_of(config_.model, {.sequence = 1});
  add_adapters(saved, config_.lora);
  checkpoint.expect(checkpoint_layout(saved).parameters());
  load_weights(checkpoint, MergedWeights(config_, checkpoint),
               {decoder_.weights(), decoder_.staging(), &decoder_.compute()});
  begin(0);
}

std::int64_t Generator::texts() const {
  return std::ssize(prompts_) * options_.samples;
}

const std::string& Generator::prompt() const {
  return options_.prompts[static_cast<std::size_t>(index_ / options_.samples)];
}

void Generator::begin(std::int64_t index) {
  index_ = index;
  decoder_.restart();
  const data::PlacedText& prompt = prompts_[static_cast<std::size_t>(index / options_.samples)];
  pending_ = seen_ = prompt.tokens;
  decoder_.place(prompt.places, images_.features());
  prompt_tokens_ = std::ssize(pending_);
  drawn_.clear();
  stream_.emplace(text_);
  stop_text_.emplace(stops_);
  finished_ = false;
}

/// As tokens, since special ones do not show in the text.
bool Generator::has_ended_turn() const {
  return !turn_end_.empty() && drawn_.size() >= turn_end_.size() &&
         std::ranges::equal(std::span(drawn_).last(turn_end_.size()), turn_end_);
}

bool Generator::has_ended() {
  const data::Tokenizer* tokenizer = text_.tokenizer();
  const auto end = tokenizer == nullptr ? std::nullopt : tokenizer->end_token();
  const std::int64_t length = decoder_.position() + std::ssize(pending_);
  if (has_ended_turn()) {
    stopped_ = Stopped::End;
  } else if (stop_text_->found()) {
    stopped_ = Stopped::StopString;
  } else if (!options_.past_end && end && !drawn_.empty() && drawn_.back() == *end) {
    stopped_ = Stopped::End;
  } else if (std::ssize(drawn_) == options_.tokens) {
    stopped_ = Stopped::Tokens;
  } else if (length > config_.model.context) {
    stopped_ = Stopped::Context;
  } else {
    return false;
  }
  return true;
}

std::int32_t Generator::draw() {
  const std::span<const float> logits = decoder_.append(pending_);
  std::int32_t token = 0;
  if (!std::ranges::all_of(logits, [](float x) { return std::isfinite(x); })) {
    token = kNoToken;
  } else if (!logits.empty()) {
    // Every text has numbers of its own; those of the first are what they always were.
    const auto place = static_cast<std::uint64_t>(index_) << 32 | drawn_.size();
    token = ops::sample(logits, options_.sample, random_.uniform(place), seen_);
  }
  // The last device alone has seen the logits.
  world_.broadcast(std::as_writable_bytes(std::span(&token, 1)), world_.size() - 1).wait();
  if (token == kNoToken) {
    comm::together(world_, [&] {
      if (world_.rank() == 0)
        throw NonFinite("the logits are not finite: " + checkpoint::why_not_finite(checkpoint_));
    });
  }
  return token;
}

std::optional<std::string> Generator::next() {
  if (finished_) return std::nullopt;
  if (has_ended()) {
    finished_ = true;
    std::string rest = stop_text_->add(stream_->finish());
    return rest + stop_text_->finish();
  }
  const std::int32_t token = draw();
  pending_.assign(1, token);
  seen_.push_back(token);
  drawn_.push_back(token);
  return stop_text_->add(stream_->add(token));
}

}  // namespace cleave::train
