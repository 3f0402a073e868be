#include "cleave/model/decoder.h"
#include "cleave/model/family.h"

namespace cleave::model {
namespace {

/// A Llama of which some layers have no rotary positions.
Graph build_smollm3(const ModelShape& s, const spec::Flow& flow, std::int64_t loss_blocks) {
  return decoder(s, {.qkv_bias = s.attention_bias, .out_bias = s.attention_bias}, flow,
                 loss_blocks);
}

}  // namespace

constinit const Family smollm3 = {.name = "smollm3",
                                  .build = build_smollm3,
                                  .check = check_decoder,
                                  .default_ffn = gated_ffn,
                                  .ties_embeddings = true,
                                  .usual_vocabulary = 128256,
                                  .ffn_matrices = 3};

}  // namespace cleave::model
