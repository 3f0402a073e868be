#include "cleave/train/config/config_schema.h"

#include <algorithm>

#include "cleave/train/config/config_forms.h"
#include "cleave/train/config/config_image_keys.h"
#include "cleave/train/config/config_rules.h"
#include "cleave/train/config/edge_keys.h"

namespace cleave::train {
namespace {

using namespace rules;  // NOLINT(google-build-using-namespace): one table, one vocabulary

bool above_zero(double x) {
  return x > 0;
}
bool not_negative(double x) {
  return x >= 0;
}

std::vector<Key> model_keys() {
  const Whole any;  // check(ModelShape) knows more
  return {
      text(
          "model.preset", "the name of a preset", "a known shape; further keys override it",
          [](auto& c) -> auto& { return c.preset; })
          .with({.otherwise = "none", .example = "\"gpt2-124m\""}),
      text(
          "model.from", "the path of a Hugging Face directory",
          "begin with its weights; the keys of [model] follow from its config.json",
          [](auto& c) -> auto& { return c.from; })
          .with({.otherwise = "none; the model begins with random weights",
                 .example = "\"models/SmolLM2-135M\""}),
      {.name = "model.kind",
       .rule = family_rule(),
       .help = "the architecture",
       .set = set_family,
       .get = get_family,
       .example = "\"llama\""},
      whole(
          "model.layers", any, "transformer blocks",
          [](auto& c) -> auto& { return c.model.layers; })
          .with({.otherwise = "none; needed without model.preset or model.from", .example = "12"}),
      whole(
          "model.hidden", any, "width of the residual stream",
          [](auto& c) -> auto& { return c.model.hidden; })
          .with({.otherwise = "none; needed without model.preset or model.from", .example = "768"}),
      whole(
          "model.heads", any, "attention heads; must divide hidden, or have a head_dim",
          [](auto& c) -> auto& { return c.model.heads; })
          .with({.otherwise = "none; needed without model.preset or model.from", .example = "12"}),
      whole(
          "model.kv_heads", any, "key and value heads; must divide heads",
          [](auto& c) -> auto& { return c.model.kv_heads; })
          .with({.otherwise = "model.heads", .example = "4"}),
      whole(
          "model.ffn", any, "feed-forward width", [](auto& c) -> auto& { return c.model.ffn; })
          .with({.otherwise = "4·hidden (gpt), 8/3·hidden up to a multiple of 64 (others)",
                 .example = "3072"}),
      of_tokens(whole(
                    "model.vocab", any, "tokens that the model knows",
                    [](auto& c) -> auto& { return c.model.vocab; })
                    .with({.otherwise = "256, one per byte", .example = "50257"})),
      of_tokens(whole(
                    "model.context", any, "longest sequence",
                    [](auto& c) -> auto& { return c.model.context; })
                    .with({.otherwise = "train.sequence", .example = "1024"})),
      boolean(
          "model.tie_embeddings", "one matrix for embedding and head",
          [](auto& c) -> auto& { return c.model.tie_embeddings; })
          .with({.otherwise = "true (gpt, smollm3, gemma3), false (others)", .example = "false"}),
      number(
          "model.norm_eps", "a number > 0", above_zero, "added to the variance in norms",
          [](auto& c) -> auto& { return c.model.norm_eps; }),
      number(
          "model.rope_theta", "a number > 0", above_zero, "base of rotary positions (not gpt)",
          [](auto& c) -> auto& { return c.model.rope_theta; }),
      number(
          "model.local_rope_theta", "a number > 0", above_zero,
          "the same in layers with a window (gemma3)",
          [](auto& c) -> auto& { return c.model.local_rope_theta; }),
      {.name = "model.rope_scaling",
       .rule = rope_scaling_rule(),
       .help = "how rotary positions were stretched, with the numbers that config.json has for it",
       .set = set_rope_scaling,
       .get = get_rope_scaling,
       .otherwise = "none",
       .example = "\"llama3,factor=8,original_context=8192\""},
      whole(
          "model.head_dim", {0}, "width of a head; 0: hidden / heads",
          [](auto& c) -> auto& { return c.model.head_dim; }),
      whole(
          "model.rotary_dim", {0}, "elements of a head that rotary positions turn; 0: all",
          [](auto& c) -> auto& { return c.model.rotary_dim; }),
      number(
          "model.attention_scale", "a number ≥ 0", not_negative,
          "of the products of queries and keys; 0: 1/√head_dim",
          [](auto& c) -> auto& { return c.model.attention_scale; }),
      whole(
          "model.window", {0}, "tokens that a token sees in layers with a window; 0: all",
          [](auto& c) -> auto& { return c.model.window; })
          .with({.example = "4096"}),
      whole(
          "model.window_from", {0}, "first layer with a window",
          [](auto& c) -> auto& { return c.model.window_from; }),
      whole(
          "model.full_every", {0}, "every n-th layer has no window all the same; 0: none",
          [](auto& c) -> auto& { return c.model.full_every; }),
      whole(
          "model.nope_every", {0}, "every n-th layer has no rotary positions; 0: all have them",
          [](auto& c) -> auto& { return c.model.nope_every; }),
      boolean(
          "model.attention_bias", "biases of the projections around attention",
          [](auto& c) -> auto& { return c.model.attention_bias; }),
      boolean(
          "model.mlp_bias", "biases of the projections of the feed-forward part",
          [](auto& c) -> auto& { return c.model.mlp_bias; }),
      one_or_list(
          "model.train",
          "modules or patterns of parameter names, such as [\"h.3\", \"ln_*.weight\", \"lm_head\"]",
          "what learns; all else keeps its values and needs no gradient",
          [](auto& c) -> auto& { return c.trained; }, read_name,
          [](const std::string& name) { return Value{name}; })
          .with({.otherwise = "all parameters", .example = "[\"h.3\", \"lm_head\"]"}),
  };
}

std::vector<Key> data_keys() {
  return {
      {.name = "data.path",
       .rule = "a path, a list of paths, or a list such as [{path = \"a\", weight = 0.7}, …]",
       .help =
           "text, .jsonl with \"text\" or \"messages\", tokens (.bin of nanoGPT, llm.c or "
           "Megatron, .npy), .gz "
           "or .zst of these, a pattern, or a directory of text: all files below it but hidden, "
           "binary and token ones, train.out and what other runs have written",
       .set = set_path,
       .get = get_path,
       .takes_text = true,
       .takes_lists = true,
       .otherwise = "none; needed to train",
       .example = "\"corpus.txt\""},
      text(
          "data.tokenizer", "\"bytes\", or the path of a tokenizer.json or tokenizer.model",
          "how text becomes tokens: one per byte, or by a tokenizer",
          [](auto& c) -> auto& { return c.data.tokenizer; })
          .with({.otherwise = "\"bytes\"", .example = "\"tokenizer.json\""}),
      choice<data::TokenType>(
          "data.dtype",
          {{"auto", data::TokenType::Auto},
           {"u16", data::TokenType::U16},
           {"u32", data::TokenType::U32}},
          "tokens of a .bin file without a header; auto: u32 if it ends in .u32.bin, else u16",
          [](auto& c) -> auto& { return c.data.dtype; }),
      choice<data::Borders>(
          "data.documents", {{"joined", data::Borders::Crossed}, {"apart", data::Borders::Kept}},
          "whether tokens see the documents before their own in the same sequence",
          [](auto& c) -> auto& { return c.data.borders; })
          .with({.example = "\"apart\""}),
      {.name = "data.validation",
       .rule = "a share from 0 to below 1, or a path",
       .help = "held out from the end of the data, or data of its own",
       .set = set_validation,
       .get = get_validation,
       .example = "\"held_out.txt\""},
      images_key(),
      augment_key(),
  };
}

std::vector<Key> train_keys() {
  return {
      whole(
          "train.steps", {0}, "optimizer updates", [](auto& c) -> auto& { return c.train.steps; })
          .with({.example = "1000"}),
      whole(
          "train.batch", {1}, "sequences or images per step, all devices together",
          [](auto& c) -> auto& { return c.train.batch; })
          .with({.example = "64"}),
      whole_or_auto(
          "train.microbatch", {1}, "sequences or images that flow through the pipeline together",
          [](auto& c) -> auto& { return c.train.microbatch; })
          .with({.example = "\"auto\""}),
      of_tokens(
          whole(
              "train.sequence", {1}, "tokens per sequence",
              [](auto& c) -> auto& { return c.train.sequence; })
              .with({.otherwise = "256, or model.context if that is shorter", .example = "512"})),
      choice<DType>(
          "train.dtype", {{"f32", DType::F32}, {"bf16", DType::BF16}},
          "number format of activations and weight copies",
          [](auto& c) -> auto& { return c.train.dtype; })
          .with({.example = "\"bf16\""}),
      whole(
          "train.loss_blocks", {1}, "pieces of the vocabulary in the loss; more: less memory",
          [](auto& c) -> auto& { return c.train.loss_blocks; }),
      text(
          "train.optimizer", "the name of an optimizer",
          "adamw, sgd, lion, or muon (for the matrices of the blocks; adamw for the rest)",
          [](auto& c) -> auto& { return c.train.optimizer; }),
      {.name = "train.schedule",
       .rule = curve_rule(),
       .help = "how the learning rate falls after warmup; wsd: in the last train.decay steps",
       .set = set_curve,
       .get = [](const Config& c) -> std::optional<Value> { return Value{c.train.schedule}; }},
      number(
          "train.lr", "a number > 0", above_zero, "highest learning rate",
          [](auto& c) -> auto& { return c.train.lr; }),
      number(
          "train.min_lr", "a number ≥ 0", not_negative, "learning rate at the last step",
          [](auto& c) -> auto& { return c.train.min_lr; })
          .with({.otherwise = "train.lr / 10", .example = "3e-5"}),
      whole(
          "train.warmup", {0}, "steps to reach lr", [](auto& c) -> auto& { return c.train.warmup; })
          .with({.otherwise = "a tenth of train.steps, at most 100", .example = "20"}),
      whole(
          "train.decay", {1}, "steps at the end in which wsd falls",
          [](auto& c) -> auto& { return c.train.decay; })
          .with({.otherwise = "a fifth of train.steps", .example = "200"}),
      {.name = "train.betas",
       .rule = "a list of two numbers from 0 to below 1",
       .help = "decay of the running means of adamw, lion and muon",
       .set = set_betas,
       .get = get_betas},
      {.name = "train.momentum",
       .rule = "a number from 0 to below 1",
       .help = "of sgd, where 0 keeps none, and of muon",
       .set = set_momentum,
       .get = get_momentum,
       .otherwise = "0.9 for sgd, 0.95 for muon",
       .example = "0.9"},
      number(
          "train.weight_decay", "a number ≥ 0", not_negative, "on matrices only",
          [](auto& c) -> auto& { return c.train.weight_decay; }),
      number(
          "train.clip", "a number ≥ 0", not_negative,
          "largest global gradient norm; 0: no clipping",
          [](auto& c) -> auto& { return c.train.clip; }),
      whole(
          "train.skip_nonfinite", {0},
          "steps with a loss or gradient that is no number that are left out before the run ends",
          [](auto& c) -> auto& { return c.train.skip_nonfinite; }),
      whole(
          "train.seed", {0}, "decides weights and data order",
          [](auto& c) -> auto& { return c.train.seed; }),
      whole(
          "train.eval_every", {0}, "steps between validations; 0: only at the end",
          [](auto& c) -> auto& { return c.train.eval_every; })
          .with({.example = "100"}),
      whole(
          "train.checkpoint_every", {0}, "steps between checkpoints; 0: only at the end",
          [](auto& c) -> auto& { return c.train.checkpoint_every; })
          .with({.otherwise = "a tenth of train.steps, from 25 to 250", .example = "500"}),
      whole(
          "train.keep", {1}, "checkpoints kept", [](auto& c) -> auto& { return c.train.keep; }),
      boolean(
          "train.elastic", "with cleave serve: go on without lost devices, and with new ones",
          [](auto& c) -> auto& { return c.train.elastic; }),
      whole(
          "train.copies", {0, 2},
          "with cleave serve: how many other devices hold each one's state, so that as many may be "
          "lost without going back to a checkpoint",
          [](auto& c) -> auto& { return c.train.copies; })
          .with({.example = "1"}),
      text(
          "train.out", "a path", "directory for checkpoints, log and config",
          [](auto& c) -> auto& { return c.train.out; })
          .with({.example = "\"runs/first\""}),
  };
}

std::vector<Key> devices_keys() {
  return {
      whole(
          "devices.count", {1, 1 << 20}, "devices of the run",
          [](auto& c) -> auto& { return c.devices.count; })
          .with({.otherwise = "the product of the axes of [parallel], or the MPI ranks",
                 .example = "4"}),
      one_or_list(
          "devices.memory", "a size such as \"96MiB\", or a list with one for each device",
          "budget of tensor memory", [](auto& c) -> auto& { return c.devices.memory; }, read_bytes,
          write_bytes)
          .with({.otherwise = "no budget", .example = "\"96MiB\""}),
      one_or_list(
          "devices.host_memory", "a size such as \"1GiB\", or a list with one for each device",
          "budget of what parallel.offload moves out, on the host or on a disk",
          [](auto& c) -> auto& { return c.devices.host_memory; }, read_bytes, write_bytes)
          .with({.otherwise = "no budget", .example = "\"1GiB\""}),
      text(
          "devices.spill", "a path", "directory of a disk for what parallel.offload moves out",
          [](auto& c) -> auto& { return c.devices.spill; })
          .with({.otherwise = "the host's memory", .example = "\"/scratch\""}),
      one_or_list(
          "devices.kind", "\"cpu\", \"opencl\" or \"opencl:N\", or a list with one for each device",
          "what devices compute with: processors, or accelerators as `cleave doctor` counts them",
          [](auto& c) -> auto& { return c.devices.kind; }, read_device_kind,
          [](const std::string& kind) { return Value{kind}; })
          .with({.otherwise = "\"cpu\"", .example = "\"opencl\""}),
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
          [](double speed) { return Value{speed}; })
          .with({.otherwise = "1 for all", .example = "[1, 1, 0.5, 1]"}),
      choice<Transport>(
          "devices.transport",
          {{"local", Transport::Local}, {"mpi", Transport::Mpi}, {"tcp", Transport::Tcp}},
          "threads of one process, MPI ranks, or programs that join over a network",
          [](auto& c) -> auto& { return c.devices.transport; })
          .with({.otherwise = "\"mpi\" under mpirun and srun, \"tcp\" with cleave serve, else "
                              "\"local\"",
                 .example = "\"local\""}),
      boolean(
          "devices.pin", "keep devices that are threads on cores of their own",
          [](auto& c) -> auto& { return c.devices.pin; }),
      {.name = "devices.emulate",
       .rule = "times such as \"f=5ms,i=5ms,w=5ms\"",
       .help = "sleep instead of computing: per device and microbatch, or with \",per=layer\" "
               "behind them per layer and sequence",
       .set = set_emulation,
       .get = get_emulation,
       .otherwise = "off: devices compute",
       .example = "\"f=5ms,i=5ms,w=5ms\""},
  };
}

/// Says nothing of runs in which encoders are wherever equal stages put them.
Key placement_key(Key key) {
  key.get = [get = key.get](const Config& config) -> std::optional<Value> {
    if (config.parallel.placement == Placement::Even) return std::nullopt;
    return get(config);
  };
  return key;
}

std::vector<Key> parallel_keys() {
  const Whole degree{1, 1 << 20};
  return {
      whole_or_auto(
          "parallel.pipeline", degree, "groups of layers, one after another",
          [](auto& c) -> auto& { return c.parallel.pipeline; })
          .with({.example = "4"}),
      whole_or_auto(
          "parallel.tensor", degree, "pieces of each layer",
          [](auto& c) -> auto& { return c.parallel.tensor; })
          .with({.example = "2"}),
      whole_or_auto(
          "parallel.data", degree, "replicas that share the batch",
          [](auto& c) -> auto& { return c.parallel.data; })
          .with({.example = "\"auto\""}),
      {.name = "parallel.order",
       .rule = "the axes data, pipeline and tensor in some order, such as \"data,pipeline,tensor\"",
       .help = "slowest axis first: neighbouring devices are neighbours along the last",
       .set = set_order,
       .get = get_order},
      whole_or_auto(
          "parallel.chunks", degree, "stages per device; auto: what the schedule wants",
          [](auto& c) -> auto& { return c.parallel.chunks; }),
      text(
          "parallel.schedule", "the name of a schedule, \"auto\", or a file such as \"my.csv\"",
          "the order of work in a step: docs/schedules.md",
          [](auto& c) -> auto& { return c.parallel.schedule; })
          .with({.otherwise = "\"1f1b\", or \"interleaved\" if chunks is above 1",
                 .example = "\"auto\""}),
      {.name = "parallel.partition",
       .rule = "\"auto\" or a list of layers for each stage, such as [6, 6]",
       .help = "layers of each stage",
       .set = set_partition,
       .get = get_partition,
       .example = "[6, 6]"},
      placement_key(
          choice<Placement>(
              "parallel.placement",
              {{"even", Placement::Even},
               {"first", Placement::First},
               {"own", Placement::Own},
               {"shared", Placement::Shared},
               {"auto", Placement::Auto}},
              "where the encoder of a vlm is: on the first device, on its own, on every one "
              "beside a stage of the language model",
              [](auto& c) -> auto& { return c.parallel.placement; })
              .with({.otherwise = "\"even\": stages of equal cost", .example = "\"own\""})),
      whole_or_auto(
          "parallel.zero", {0, 3},
          "what replicas share: 1 optimizer, 2 gradients too, 3 weights too",
          [](auto& c) -> auto& { return c.parallel.zero; })
          .with({.example = "1"}),
      {.name = "parallel.recompute",
       .rule = "\"none\", \"full\", \"selective\" or \"auto\", or a list with one for each layer",
       .help = "compute activations again instead of keeping them",
       .set = set_recompute,
       .get = get_recompute,
       .example = "\"selective\""},
      {.name = "parallel.offload",
       .rule = "\"none\", \"activations\" or \"auto\"",
       .help = "move what is kept for the backward pass out of a device's memory meanwhile; auto: "
               "if the plan does not fit otherwise",
       .set = set_offload,
       .get = get_offload,
       .example = "\"activations\""},
      boolean(
          "parallel.sequence_parallel", "divide norms by tokens over the tensor axis",
          [](auto& c) -> auto& { return c.parallel.sequence_parallel; }),
      {.name = "parallel.grid",
       .rule = "\"one\" or \"any\"",
       .help = "\"auto\" keeps to one grid, the same on every machine, or takes the fastest here",
       .set = set_grid,
       .get = get_grid,
       .example = "\"any\""},
      placement_key(whole(
                        "parallel.vision.pipeline", degree, "stages of the encoder (placement own)",
                        [](auto& c) -> auto& { return c.parallel.vision_pipeline; })
                        .with({.otherwise = "none", .example = "1"})),
      placement_key(whole(
                        "parallel.language.pipeline", degree,
                        "stages of the language model (placement own)",
                        [](auto& c) -> auto& { return c.parallel.language_pipeline; })
                        .with({.otherwise = "what parallel.pipeline leaves", .example = "3"})),
      whole(
          "numerics.data_shards", degree,
          "logical data shards, which fix the order of sums over replicas",
          [](auto& c) -> auto& { return c.numerics.data_shards; })
          .with({.otherwise = "parallel.data", .example = "8"}),
      whole(
          "numerics.tensor_shards", degree,
          "logical tensor shards, which fix the order of sums inside layers",
          [](auto& c) -> auto& { return c.numerics.tensor_shards; })
          .with({.otherwise = "parallel.tensor", .example = "4"}),
      boolean(
          "numerics.exact", "the bits of every processor with fused multiply-add, also in bf16",
          [](auto& c) -> auto& { return c.numerics.exact; })
          .with({.otherwise = "true where it costs nothing", .example = "true"}),
  };
}

std::vector<Key> all_keys() {
  std::vector<Key> keys;
  for (auto section : {model_keys, image_keys, lora_keys, data_keys, template_keys, train_keys,
                       devices_keys, parallel_keys, edge_keys}) {
    std::ranges::move(section(), std::back_inserter(keys));
  }
  return keys;
}

}  // namespace

std::span<const Key> config_keys() {
  static const std::vector<Key> keys = all_keys();
  return keys;
}

}  // namespace cleave::train
