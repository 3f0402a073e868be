#include "cleave/model/decoder.h"
#include "cleave/model/family.h"

namespace cleave::model {
namespace {

/// A Llama whose q, k and v have biases, and whose later layers may have a window.
Graph build_qwen2(const ModelShape& s, const spec::Flow& flow, std::int64_t loss_blocks) {
  return decoder(s, {.qkv_bias = true}, flow, loss_blocks);
}

/// A Llama whose q and k are normed head by head.
Graph build_qwen3(const ModelShape& s, const spec::Flow& flow, std::int64_t loss_blocks) {
  return decoder(s,
                 {.qkv_bias = s.attention_bias,
                  .out_bias = s.attention_bias,
                  .qk_norm = DecoderStyle::QkNorm::Heads},
                 flow, loss_blocks);
}

}  // namespace

constinit const Family qwen2 = {.name = "qwen2",
                                .build = build_qwen2,
                                .check = check_decoder,
                                .default_ffn = gated_ffn,
                                .usual_vocabulary = 151936,
                                .ffn_matrices = 3};

constinit const Family qwen3 = {.name = "qwen3",
                                .build = build_qwen3,
                                .check = check_decoder,
                                .default_ffn = gated_ffn,
                                .usual_vocabulary = 151936,
                                .ffn_matrices = 3};

}  // namespace cleave::model
