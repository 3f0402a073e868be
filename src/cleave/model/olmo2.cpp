#include "cleave/model/decoder.h"
#include "cleave/model/decoder_config.h"
#include "cleave/model/family.h"
#include "cleave/model/hugging_face.h"
#include "cleave/model/shape_keys.h"

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

void read_olmo2(const ConfigJson& config, ModelShape& shape) {
  read_decoder(config, {.norm_eps = 1e-5, .pad_token = 1}, shape);
  shape.attention_bias = config.truth("attention_bias", false);
}

void write_olmo2(const ModelShape& shape, ConfigJsonText& config) {
  write_decoder(shape, config);
  config.set("attention_bias", shape.attention_bias);
}

constexpr HuggingFace kOlmo2Names = {.model_type = "olmo2",
                                     .architecture = "Olmo2ForCausalLM",
                                     .read = read_olmo2,
                                     .write = write_olmo2};

}  // namespace

constinit const Family olmo2 = {.name = "olmo2",
                                .build = build_olmo2,
                                .check = check_decoder,
                                .default_ffn = gated_ffn,
                                .usual_vocabulary = 100352,
                                .ffn_matrices = 3,
                                .hugging_face = &kOlmo2Names,
                                .unread = kUnreadByDecoders};

}  // namespace cleave::model
