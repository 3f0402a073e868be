#include "cleave/model/decoder.h"
#include "cleave/model/family.h"

namespace cleave::model {
namespace {

/// A Llama whose layers may have a window.
Graph build_mistral(const ModelShape& s, const spec::Flow& flow, std::int64_t loss_blocks) {
  return decoder(s, {.qkv_bias = s.attention_bias, .out_bias = s.attention_bias}, flow,
                 loss_blocks);
}

}  // namespace

constinit const Family mistral = {.name = "mistral",
                                  .build = build_mistral,
                                  .check = check_decoder,
                                  .default_ffn = gated_ffn,
                                  .usual_vocabulary = 32000,
                                  .ffn_matrices = 3};

}  // namespace cleave::model
