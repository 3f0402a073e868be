#include "cleave/train/config/config_schema.h"

#include <algorithm>

#include "cleave/base/nearest.h"
#include "cleave/base/utf8.h"
#include "cleave/train/config/config_forms.h"
#include "cleave/train/config/config_rules.h"

namespace cleave::train {
namespace {

using namespace rules;  // NOLINT(google-build-using-namespace): one table, one vocabulary

bool above_zero(double x) {
  return x > 0;
}
bool not_negative(double x) {
  return x >= 0;
}

Choices<const model::Family*> family_choices() {
  Choices<const model::Family*> choices;
  for (const model::Family* family : model::families()) choices.emplace_back(family->name, family);
  return choices;
}

std::vector<Key> model_keys() {
  const Whole any;  // check(ModelShape) knows more
  return {
      text(
          "model.preset", "the name of a preset", "a known shape; further keys override it",
          [](auto& c) -> auto& { return c.preset; }),
      choice<const model::Family*>(
          "model.kind", family_choices(), "the architecture",
          [](auto& c) -> auto& { return c.model.kind; }),
      whole(
          "model.layers", any, "transformer blocks",
          [](auto& c) -> auto& { return c.model.layers; }),
      whole(
          "model.hidden", any, "width of the residual stream",
          [](auto& c) -> auto& { return c.model.hidden; }),
      whole(
          "model.heads", any, "attention heads; must divide hidden",
          [](auto& c) -> auto& { return c.model.heads; }),
      whole(
          "model.kv_heads", any, "key and value heads; must divide heads; default heads",
          [](auto& c) -> auto& { return c.model.kv_heads; }),
      whole(
          "model.ffn", any, "feed-forward width; default 4·hidden (gpt), about 8/3·hidden (llama)",
          [](auto& c) -> auto& { return c.model.ffn; }),
      whole(
          "model.vocab", any, "tokens; default 256, one per byte",
          [](auto& c) -> auto& { return c.model.vocab; }),
      whole(
          "model.context", any, "longest sequence; default train.sequence",
          [](auto& c) -> auto& { return c.model.context; }),
      boolean(
          "model.tie_embeddings", "one matrix for embedding and head; default gpt yes, llama no",
          [](auto& c) -> auto& { return c.model.tie_embeddings; }),
      number(
          "model.norm_eps", "a number > 0", above_zero, "added to the variance in norms",
          [](auto& c) -> auto& { return c.model.norm_eps; }),
      number(
          "model.rope_theta", "a number > 0", above_zero, "base of rotary positions (llama)",
          [](auto& c) -> auto& { return c.model.rope_theta; }),
  };
}

std::vector<Key> data_keys() {
  return {
      text(
          "data.path", "a path",
          "text file, .bin of tokens, or directory of text: all files below it but hidden, binary "
          "and .bin ones, train.out and what other runs have written",
          [](auto& c) -> auto& { return c.data.path; }),
      choice<data::Tokenizer>(
          "data.tokenizer", {{"bytes", data::Tokenizer::Bytes}},
          "how text becomes tokens: one per byte",
          [](auto& c) -> auto& { return c.data.tokenizer; }),
      choice<data::TokenType>(
          "data.dtype",
          {{"auto", data::TokenType::Auto},
           {"u16", data::TokenType::U16},
           {"u32", data::TokenType::U32}},
          "tokens of a .bin file; auto: u32 if it ends in .u32.bin, else u16",
          [](auto& c) -> auto& { return c.data.dtype; }),
      {.name = "data.validation",
       .rule = "a share from 0 to below 1, or a path",
       .help = "held out from the end of the data, or data of its own",
       .set = set_validation,
       .get = get_validation},
  };
}

std::vector<Key> train_keys() {
  return {
      whole(
          "train.steps", {0}, "optimizer updates", [](auto& c) -> auto& { return c.train.steps; }),
      whole(
          "train.batch", {1}, "sequences per step, all devices together",
          [](auto& c) -> auto& { return c.train.batch; }),
      whole_or_auto(
          "train.microbatch", {1}, "sequences that flow through the pipeline together",
          [](auto& c) -> auto& { return c.train.microbatch; }),
      whole(
          "train.sequence", {1}, "tokens per sequence; default 256 or model.context if shorter",
          [](auto& c) -> auto& { return c.train.sequence; }),
      choice<DType>(
          "train.dtype", {{"f32", DType::F32}, {"bf16", DType::BF16}},
          "number format of activations and weight copies",
          [](auto& c) -> auto& { return c.train.dtype; }),
      whole(
          "train.loss_blocks", {1}, "pieces of the vocabulary in the loss; more: less memory",
          [](auto& c) -> auto& { return c.train.loss_blocks; }),
      text(
          "train.optimizer", "the name of an optimizer", "adamw",
          [](auto& c) -> auto& { return c.train.optimizer; }),
      number(
          "train.lr", "a number > 0", above_zero, "highest learning rate",
          [](auto& c) -> auto& { return c.train.lr; }),
      number(
          "train.min_lr", "a number ≥ 0", not_negative, "at the last step; default lr / 10",
          [](auto& c) -> auto& { return c.train.min_lr; }),
      whole(
          "train.warmup", {0}, "steps to reach lr; default a tenth of steps, at most 100",
          [](auto& c) -> auto& { return c.train.warmup; }),
      {.name = "train.betas",
       .rule = "a list of two numbers from 0 to below 1",
       .help = "decay of the optimizer's running means",
       .set = set_betas,
       .get = get_betas},
      number(
          "train.weight_decay", "a number ≥ 0", not_negative, "on matrices only",
          [](auto& c) -> auto& { return c.train.weight_decay; }),
      number(
          "train.clip", "a number ≥ 0", not_negative,
          "largest global gradient norm; 0: no clipping",
          [](auto& c) -> auto& { return c.train.clip; }),
      whole(
          "train.seed", {0}, "decides weights and data order",
          [](auto& c) -> auto& { return c.train.seed; }),
      whole(
          "train.eval_every", {0}, "steps between validations; 0: only at the end",
          [](auto& c) -> auto& { return c.train.eval_every; }),
      whole(
          "train.checkpoint_every", {0}, "steps between checkpoints; 0: only at the end",
          [](auto& c) -> auto& { return c.train.checkpoint_every; }),
      whole(
          "train.keep", {1}, "checkpoints kept", [](auto& c) -> auto& { return c.train.keep; }),
      text(
          "train.out", "a path", "directory for checkpoints, log and config",
          [](auto& c) -> auto& { return c.train.out; }),
  };
}

std::vector<Key> devices_keys() {
  return {
      whole(
          "devices.count", {1, 1 << 20}, "default: what the axes of [parallel] multiply to",
          [](auto& c) -> auto& { return c.devices.count; }),
      one_or_list(
          "devices.memory", "a size such as \"96MiB\", or a list with one for each device",
          "budget of tensor memory", [](auto& c) -> auto& { return c.devices.memory; }, read_bytes,
          write_bytes),
      whole(
          "devices.threads", {1, 4096}, "threads of each device",
          [](auto& c) -> auto& { return c.devices.threads; }),
      one_or_list(
          "devices.speed", "a number > 0, or a list with one for each device",
          "relative speed of emulated devices", [](auto& c) -> auto& { return c.devices.speed; },
          [](const Value& v) {
            const auto speed = as_number(v);
            return speed && *speed > 0 ? speed : std::nullopt;
          },
          [](double speed) { return Value{speed}; }),
      choice<Transport>(
          "devices.transport",
          {{"local", Transport::Local}, {"mpi", Transport::Mpi}, {"tcp", Transport::Tcp}},
          "threads of one process, MPI ranks, or programs that join over a network; default mpi "
          "under mpirun and srun, tcp with cleave serve",
          [](auto& c) -> auto& { return c.devices.transport; }),
      {.name = "devices.emulate",
       .rule = "times such as \"f=5ms,i=5ms,w=5ms\"",
       .help = "sleep instead of computing: per device and microbatch, or with \",per=layer\" "
               "behind them per layer and sequence",
       .set = set_emulation,
       .get = get_emulation},
  };
}

std::vector<Key> parallel_keys() {
  const Whole degree{1, 1 << 20};
  return {
      whole_or_auto(
          "parallel.pipeline", degree, "groups of layers, one after another",
          [](auto& c) -> auto& { return c.parallel.pipeline; }),
      whole_or_auto(
          "parallel.tensor", degree, "pieces of each layer",
          [](auto& c) -> auto& { return c.parallel.tensor; }),
      whole_or_auto(
          "parallel.data", degree, "replicas that share the batch",
          [](auto& c) -> auto& { return c.parallel.data; }),
      {.name = "parallel.order",
       .rule = "the axes data, pipeline and tensor in some order, such as \"data,pipeline,tensor\"",
       .help = "slowest axis first: neighbouring devices are neighbours along the last",
       .set = set_order,
       .get = get_order},
      whole_or_auto(
          "parallel.chunks", degree, "stages per device; auto: what the schedule wants",
          [](auto& c) -> auto& { return c.parallel.chunks; }),
      text(
          "parallel.schedule", "the name of a schedule or \"auto\"",
          "default 1f1b, with chunks > 1 interleaved",
          [](auto& c) -> auto& { return c.parallel.schedule; }),
      {.name = "parallel.partition",
       .rule = "\"auto\" or a list of layers for each stage, such as [6, 6]",
       .help = "layers of each stage",
       .set = set_partition,
       .get = get_partition},
      whole_or_auto(
          "parallel.zero", {0, 3},
          "what replicas share: 1 optimizer, 2 gradients too, 3 weights too",
          [](auto& c) -> auto& { return c.parallel.zero; }),
      {.name = "parallel.recompute",
       .rule = "\"none\", \"full\", \"selective\" or \"auto\", or a list with one for each layer",
       .help = "compute activations again instead of keeping them",
       .set = set_recompute,
       .get = get_recompute},
      boolean(
          "parallel.sequence_parallel", "divide norms by tokens over the tensor axis",
          [](auto& c) -> auto& { return c.parallel.sequence_parallel; }),
      whole(
          "numerics.data_shards", degree, "logical data shards; default parallel.data",
          [](auto& c) -> auto& { return c.numerics.data_shards; }),
      whole(
          "numerics.tensor_shards", degree, "logical tensor shards; default parallel.tensor",
          [](auto& c) -> auto& { return c.numerics.tensor_shards; }),
  };
}

/// Checkpoints keep the config as JSON, and the system ends a path at a NUL byte.
void check_text(const Entry& entry, const Value& value) {
  const auto* text = as<std::string>(value);
  if (text == nullptr) return;
  const bool utf8 = is_utf8(*text);
  require(utf8 && text->find('\0') == std::string::npos, entry.key, " is \"", printable(*text),
          "\" ", entry.place, ", which ", utf8 ? "has a NUL byte" : "is not UTF-8",
          "; give a name in UTF-8 without NUL bytes, such as that of a link");
}

std::vector<Key> all_keys() {
  std::vector<Key> keys;
  for (auto section : {model_keys, data_keys, train_keys, devices_keys, parallel_keys}) {
    std::ranges::move(section(), std::back_inserter(keys));
  }
  return keys;
}

}  // namespace

std::span<const Key> config_keys() {
  static const std::vector<Key> keys = all_keys();
  return keys;
}

const Key& find_key(const Entry& entry) {
  std::vector<std::string_view> names;
  for (const Key& key : config_keys()) {
    if (key.name == entry.key) return key;
    names.push_back(key.name);
  }
  throw UserError(detail::concat("there is no key ", entry.key, " (", entry.place, ")",
                                 did_you_mean(entry.key, names)));
}

void apply(const Entry& entry, Config& config) {
  const Key& key = find_key(entry);
  const bool as_typed =
      key.takes_text && !entry.text.empty() && !std::holds_alternative<std::string>(entry.value.is);
  const Value value = as_typed ? Value{entry.text} : entry.value;
  check_text(entry, value);
  require(key.set(config, value), key.name, " is ", describe(value), " ", entry.place,
          "; it must be ", key.rule);
}

}  // namespace cleave::train
