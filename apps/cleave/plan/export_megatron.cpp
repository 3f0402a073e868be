#include "plan/export_megatron.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "plan/export_limits.h"
#include <fmt/format.h>

#include "cleave/base/check.h"
#include "cleave/model/family.h"

namespace cleave::app {
namespace {

using plan::Layout;
using plan::Workload;
using schedule::Recompute;
using Flags = std::vector<std::string>;

/// A family that pretrain_gpt.py has.
struct MegatronFamily {
  const model::Family* family;
  std::string_view flag;  ///< by which it differs from others with as many matrices; or empty
};

constexpr std::array<MegatronFamily, 7> kFamilies = {{{&model::gpt, ""},
                                                      {&model::llama, ""},
                                                      {&model::mistral, ""},
                                                      {&model::qwen2, "--add-qkv-bias"},
                                                      {&model::qwen3, "--qk-layernorm"},
                                                      {&model::phi3, ""},
                                                      {&model::smollm3, ""}}};

const MegatronFamily* find_megatron_family(const ModelShape& model) {
  const auto at = std::ranges::find(kFamilies, model.kind, &MegatronFamily::family);
  return at == kFamilies.end() ? nullptr : &*at;
}

void add_decoder(const ModelShape& m, Flags& flags) {
  const double turns = m.rotary_dim > 0 ? static_cast<double>(m.rotary_dim) : 1;
  const double whole = m.rotary_dim > 0 ? static_cast<double>(m.head_size()) : 1;
  flags.emplace_back("--swiglu");
  flags.emplace_back("--normalization RMSNorm");
  flags.emplace_back("--disable-bias-linear");
  flags.emplace_back("--position-embedding-type rope");
  flags.push_back(fmt::format("--rotary-base {:.0f}", m.rope_theta));
  flags.push_back(fmt::format("--rotary-percent {}", turns / whole));
}

void add_model(const Workload& work, Flags& flags) {
  const ModelShape& m = work.model;
  flags.push_back(fmt::format("--num-layers {}", m.layers));
  flags.push_back(fmt::format("--hidden-size {}", m.hidden));
  flags.push_back(fmt::format("--num-attention-heads {}", m.heads));
  flags.push_back(fmt::format("--kv-channels {}", m.head_size()));
  if (m.kv_heads != m.heads)
    flags.push_back(fmt::format("--group-query-attention --num-query-groups {}", m.kv_heads));
  flags.push_back(fmt::format("--ffn-hidden-size {}", m.ffn));
  flags.push_back(fmt::format("--seq-length {}", work.sequence));
  flags.push_back(fmt::format("--max-position-embeddings {}", work.sequence));
  flags.push_back(fmt::format("--vocab-size {}", m.vocab));
  flags.push_back(fmt::format("--norm-epsilon {}", m.norm_eps));
  if (!m.kind->learns_positions) add_decoder(m, flags);
  const std::string_view own = find_megatron_family(m)->flag;
  if (!own.empty()) flags.emplace_back(own);
  if (!m.tie_embeddings) flags.emplace_back("--untie-embeddings-and-output-weights");
  flags.emplace_back("--attention-dropout 0");
  flags.emplace_back("--hidden-dropout 0");
  if (work.attention == plan::AttentionKernel::Flash) flags.emplace_back("--use-flash-attn");
}

void add_stages(const Workload& work, const Layout& layout, Flags& flags) {
  const int stages = layout.stages();
  const int ends = layers_of_ends(work.model.layers, stages).value();
  flags.push_back(fmt::format("--pipeline-model-parallel-size {}", layout.pipeline));
  if (ends > 0)
    flags.emplace_back(
        "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split");
  if (layout.chunks > 1)
    flags.push_back(fmt::format("--num-layers-per-virtual-pipeline-stage {}",
                                (work.model.layers + 2 * ends) / stages));
}

void add_saving(const Layout& layout, Flags& flags) {
  if (layout.zero >= 1) flags.emplace_back("--use-distributed-optimizer");
  if (layout.zero >= 2)
    flags.push_back(
        fmt::format("--use-megatron-fsdp --data-parallel-sharding-strategy {} "
                    "--no-gradient-accumulation-fusion --ckpt-format fsdp_dtensor",
                    layout.zero == 2 ? "optim_grads" : "optim_grads_params"));
  if (recompute_of(layout) == Recompute::Selective)
    flags.emplace_back("--recompute-granularity selective");
  if (recompute_of(layout) == Recompute::Full)
    flags.emplace_back(
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1");
}

}  // namespace

void check_megatron_model(const ModelShape& m) {
  require(find_megatron_family(m) != nullptr,
          "Megatron-LM's pretrain_gpt.py has no models of kind ", m.kind->name,
          "; leave --export out");
  require(m.window == 0 && m.nope_every == 0 && m.nope_layers.empty() &&
              m.rope_scaling == RopeScaling{} && m.attention_scale == 0 && !m.attention_bias &&
              !m.mlp_bias,
          "--export megatron has no flags for model.window, nope_every, nope_layers, rope_scaling, "
          "attention_bias and mlp_bias; leave --export out");
}

std::string megatron_program(const Workload& work, const Layout& layout) {
  const std::int64_t node = std::min<std::int64_t>(work.cluster.hardware->node, layout.devices());
  return fmt::format("torchrun --nnodes {} --nproc-per-node {} pretrain_gpt.py",
                     (layout.devices() + node - 1) / node, node);
}

Flags megatron_flags(const Workload& work, const Layout& layout) {
  Flags flags;
  add_model(work, flags);
  flags.push_back(fmt::format("--tensor-model-parallel-size {}", layout.tensor));
  add_stages(work, layout, flags);
  if (layout.sequence_parallel) flags.emplace_back("--sequence-parallel");
  add_saving(layout, flags);
  flags.push_back(fmt::format("--micro-batch-size {}", layout.microbatch));
  flags.push_back(fmt::format("--global-batch-size {}", work.batch));
  flags.emplace_back("--bf16");
  return flags;
}

}  // namespace cleave::app
