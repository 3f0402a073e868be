#include "cleave/model/decoder.h"
#include "cleave/model/family.h"

namespace cleave::model {
namespace {

/// A Llama whose checkpoints have q, k and v in one tensor, and gate and up in another.
Graph build_phi3(const ModelShape& s, const spec::Flow& flow, std::int64_t loss_blocks) {
  return decoder(s, {.fused_tensors = true}, flow, loss_blocks);
}

}  // namespace

constinit const Family phi3 = {.name = "phi3",
                               .build = build_phi3,
                               .check = check_decoder,
                               .default_ffn = gated_ffn,
                               .usual_vocabulary = 32064,
                               .ffn_matrices = 3};

}  // namespace cleave::model
