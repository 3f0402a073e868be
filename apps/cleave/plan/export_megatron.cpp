#include "plan/export_megatron.h"

#include <algorithm>

#include "plan/export_limits.h"
#include <fmt/format.h>

#include "cleave/model/family.h"

namespace cleave::app {
namespace {

using plan::Layout;
using plan::Workload;
using schedule::Recompute;
using Flags = std::vector<std::string>;

void add_decoder(Flags& flags) {
  flags.emplace_back("--swiglu --normalization RMSNorm --disable-bias-linear");
  flags.emplace_back("--position-embedding-type rope");
}

void add_model(const Workload& work, Flags& flags) {
  const ModelShape& m = work.model;
  flags.push_back(fmt::format("--num-layers {}", m.layers));
  flags.push_back(fmt::format("--hidden-size {}", m.hidden));
  flags.push_back(fmt::format("--num-attention-heads {}", m.heads));
  if (m.kv_heads != m.heads)
    flags.push_back(fmt::format("--group-query-attention --num-query-groups {}", m.kv_heads));
  flags.push_back(fmt::format("--ffn-hidden-size {}", m.ffn));
  flags.push_back(fmt::format("--seq-length {}", work.sequence));
  flags.push_back(fmt::format("--max-position-embeddings {}", work.sequence));
  flags.push_back(fmt::format("--vocab-size {}", m.vocab));
  if (!m.kind->learns_positions) add_decoder(flags);
  if (!m.tie_embeddings) flags.emplace_back("--untie-embeddings-and-output-weights");
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
