#include "layers/layer_cases.h"

#include "cleave/spec/contrastive_layers.h"
#include "cleave/spec/image_layers.h"
#include "cleave/spec/map_layers.h"
#include "cleave/spec/port_layers.h"
#include "cleave/spec/window_layers.h"

namespace cleave::testing {
namespace {

AttentionShape with(AttentionShape shape, AttentionMask mask, std::int64_t window = 0) {
  shape.mask = mask;
  shape.window = window;
  return shape;
}

/// Scores of about 1, of which the cap takes a good part away.
AttentionShape capped(AttentionShape shape) {
  shape.scale = 0.4f;
  shape.cap = 1.5f;
  return shape;
}

spec::QkNormShape qk_norm(bool per_head) {
  return {.heads = 3,
          .kv_heads = 2,
          .head_dim = 4,
          .per_head = per_head,
          .epsilon = 1e-5f,
          .q_name = "q",
          .k_name = "k"};
}

const spec::PairShape kPairs{
    .features = 3, .samples = 5, .scale_name = "scale", .bias_name = "bias"};

}  // namespace

std::vector<LayerCase> layer_cases() {
  const AttentionShape heads{
      .sequences = 2, .sequence = 6, .heads = 4, .kv_heads = 2, .head_dim = 4};
  const std::int64_t in = kFeatures;
  return {
      {"linear", spec::linear("l", kFlow, {.in = in, .out = 5, .bias = Bias::Add})},
      {"linear, transposed",
       spec::linear("l", kFlow, {.in = in, .out = 5, .weight = Transpose::Yes})},
      {"layernorm", spec::layernorm("n", kFlow, in, 1e-5f)},
      {"rmsnorm", spec::rmsnorm("n", kFlow, in, 1e-5f)},
      {"q and k norms of heads", spec::qknorm("n", kFlow, qk_norm(true))},
      {"q and k norms of all heads", spec::qknorm("n", kFlow, qk_norm(false))},
      {"gelu", spec::gelu("g", kFlow, in)},
      {"gelu, exact", spec::gelu("g", kFlow, in, GeluForm::Exact)},
      {"gelu, quick", spec::gelu("g", kFlow, in, GeluForm::Quick)},
      {"class token",
       spec::class_token("c", kFlow, {.features = in, .token_name = "t", .position_name = "p"})},
      {"first row", spec::first_row("f", kFlow, in)},
      {"positions", spec::positions("p", kFlow, in, "p")},
      {"without first", spec::without_first("w", kFlow, in)},
      {"pixel shuffle", spec::pixel_shuffle("s", {.sequences = 2, .sequence = 36}, 3, 3)},
      {"image join",
       spec::image_join("j", kFlow,
                        {.rows = 5, .vocabulary = kVocabulary, .features = in, .token_name = "t"})},
      {"kept rows", spec::kept_rows("k", kFlow, in)},
      {"add rows", spec::add_rows("a", kFlow, in, 5)},
      {"add port", spec::add_port("a", kFlow, in, "other")},
      {"concat port", spec::concat_port("c", kFlow, {.places = 2, .own = 4, .other = 3}, "other")},
      {"pad", spec::pad("p", kFlow, {2, 2, 3}, 1)},
      {"upsample", spec::upsample("u", kFlow, {2, 2, 3}, 2)},
      {"mean pixels", spec::mean_pixels("m", kFlow, {2, 3, 2})},
      {"group norm",
       spec::group_norm("g", kFlow, {2, 3, 4}, {.channels = 4, .groups = 2, .epsilon = 1e-5f})},
      {"convolution",
       spec::convolution("c", kFlow, {.height = 4, .width = 5, .channels = 2, .size = 3}, 3)},
      {"channels first", spec::channels_first("f", kFlow, 12, 3)},
      {"unit rows", spec::unit_rows("u", kFlow, in)},
      {"last row", spec::last_row("r", kFlow, in)},
      {"picked row", spec::picked_row("r", kFlow, in)},
      {"attention pool",
       spec::attention_pool("p", kFlow,
                            {.features = in, .heads = 2, .probe_name = "q", .in_proj = "i_"})},
      {"contrastive loss", spec::contrastive_loss("l", {.sequences = 5}, kPairs)},
      {"sigmoid loss", spec::sigmoid_loss("l", {.sequences = 5}, kPairs)},
      {"class loss", spec::class_loss("l", {.sequences = 5}, kVocabulary)},
      {"swiglu", spec::swiglu("s", kFlow, in)},
      {"geglu", spec::geglu("g", kFlow, in)},
      {"rmsnorm by one plus its weight", spec::rmsnorm("n", kFlow, in, 1e-5f, NormWeight::OnePlus)},
      {"attention", spec::attention("a", kFlow, {.shape = heads})},
      {"attention, rotary",
       spec::attention("a", kFlow, {.shape = heads, .rope = {.frequencies = {1, 0.1}}})},
      {"attention, partly rotary",
       spec::attention("a", kFlow,
                       {.shape = heads, .rope = {.frequencies = {0.3}, .magnitude = 1.2}})},
      {"attention, full", spec::attention("a", kFlow, {.shape = with(heads, AttentionMask::Full)})},
      {"attention, window",
       spec::attention("a", kFlow, {.shape = with(heads, AttentionMask::Window, 3)})},
      {"attention, capped", spec::attention("a", kFlow, {.shape = capped(heads)})},
      {"embedding, scaled",
       spec::embedding("e", kFlow,
                       {.vocabulary = kVocabulary, .features = in, .scale = 3, .token_name = "t"})},
      {"embedding", spec::embedding("e", kFlow,
                                    {.vocabulary = kVocabulary,
                                     .features = in,
                                     .context = 6,
                                     .token_name = "t",
                                     .position_name = "p"})},
      {"loss",
       spec::loss("h", kFlow, {.vocabulary = kVocabulary, .features = in, .weight_name = "w"})},
      {"loss in blocks",
       spec::loss("h", kFlow,
                  {.vocabulary = kVocabulary, .features = in, .blocks = 3, .weight_name = "w"})},
  };
}

}  // namespace cleave::testing
