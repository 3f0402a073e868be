#include "cleave/model/decoder.h"
#include "cleave/model/family.h"

namespace cleave::model {
namespace {

/// A Llama that norms what attention and the feed-forward part give rather than what they take, and
/// q and k over all their heads.
Graph build_olmo2(const ModelShape& s, const spec::Flow& flow, std::int64_t loss_blocks) {
  return decoder(s,
                 {.qkv_bias = s.attention_bias,
                  .out_bias = s.attention_bias,
                  .qk_norm = DecoderStyle::QkNorm::Width,
                  .norms = DecoderStyle::Norms::After},
                 flow, loss_blocks);
}

}  // namespace

constinit const Family olmo2 = {.name = "olmo2",
                                .build = build_olmo2,
                                .check = check_decoder,
                                .default_ffn = gated_ffn,
                                .usual_vocabulary = 100352,
                                .ffn_matrices = 3};

}  // namespace cleave::model
