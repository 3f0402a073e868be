#include "cleave/model/decoder.h"
#include "cleave/model/decoder_config.h"
#include "cleave/model/family.h"
#include "cleave/model/hugging_face.h"
#include "cleave/model/shape_keys.h"

namespace cleave::model {
namespace {

/// A Llama whose checkpoints have q, k and v in one tensor, and gate and up in another.
Graph build_phi3(const ModelShape& s, const spec::Flow& flow, std::int64_t loss_blocks) {
  return decoder(s, {.fused_tensors = true}, flow, loss_blocks);
}

void read_phi3(const ConfigJson& config, ModelShape& shape) {
  read_decoder(config, {.norm_eps = 1e-5, .pad_token = 32000, .partial_rotary = true}, shape);
  if (shape.rope_scaling.kind != RopeScaling::Kind::None) {
    config.refuse(config.has("rope_scaling") ? "rope_scaling" : "rope_parameters",
                  "this family stretches positions by tables that cleave does not read");
  }
  read_window(config, shape);
}

void write_phi3(const ModelShape& shape, ConfigJsonText& config) {
  write_decoder(shape, config);
  config.set("original_max_position_embeddings", shape.context);
  write_window(shape, config);
}

constexpr HuggingFace kPhi3Names = {.model_type = "phi3",
                                    .architecture = "Phi3ForCausalLM",
                                    .read = read_phi3,
                                    .write = write_phi3};

}  // namespace

constinit const Family phi3 = {.name = "phi3",
                               .build = build_phi3,
                               .check = check_decoder,
                               .default_ffn = gated_ffn,
                               .usual_vocabulary = 32064,
                               .ffn_matrices = 3,
                               .hugging_face = &kPhi3Names,
                               .unread = kUnreadByDecodersOfFixedBias};

}  // namespace cleave::model
