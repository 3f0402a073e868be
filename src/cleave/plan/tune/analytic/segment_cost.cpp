#include "cleave/plan/tune/analytic/segment_cost.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "cleave/plan/hardware/formats.h"
#include "cleave/plan/hardware/kernel_time.h"
#include "cleave/plan/tune/analytic/kernel_passes.h"

namespace cleave::plan {
namespace {

double to_double(std::int64_t value) {
  return static_cast<double>(value);
}

/// Pairs of a query and a key that it sees, about, in one sequence.
double scores_seen(const AttentionShape& shape) {
  const double sequence = to_double(shape.sequence);
  const double window = std::min(to_double(shape.window), sequence);
  switch (shape.mask) {
    case AttentionMask::Full:
      return sequence * sequence;
    case AttentionMask::Window:
      return window * (sequence - window / 2);
    case AttentionMask::Causal:
      break;
  }
  return sequence * sequence / 2;
}

class Walk {
 public:
  explicit Walk(const SegmentContext& context)
      : context_(context),
        hardware_(context.hardware),
        tensor_(to_double(context.tensor)),
        group_{context.tensor, std::min<std::int64_t>(context.tensor, hardware_.node)} {}

  SegmentCost run(const SegmentSpec& segment) {
    Until previous = Until::Forward;
    for (const LayerSpec& layer : segment.layers) {
      if (layer.x_until != Until::Forward || previous != Until::Forward) keep(layer);
      previous = layer.y_until;
      (this->*cost_of(layer.kind))(layer);
    }
    const LayerSpec& first = segment.layers.front();
    const bool kept = first.kind != "embedding" && context_.wants_gradient;
    cost_.entry = kept ? elements(first.x) * kElement / tokens_share() : 0;
    cost_.work += 2 * elements(segment.layers.back().x) * kElement / tokens_share();
    return cost_;
  }

 private:
  static double elements(const TensorSpec& tensor) { return to_double(tensor.shape.elements()); }

  double tokens_share() const { return context_.sequence_parallel ? tensor_ : 1; }

  /// How much smaller a tensor at this place of the chain is than the spec says.
  double share() const { return split_ ? tensor_ : tokens_share(); }

  void keep(const LayerSpec& layer) {
    if (layer.kind == "embedding") return;  // token numbers: nothing to speak of
    const double bytes = elements(layer.x) * kElement / share();
    cost_.kept += bytes;
    if (split_) cost_.work = std::max(cost_.work, 3 * bytes);
  }

  void stream(const Passes& passes, double bytes) {
    if (context_.kernels == Kernels::Eager) bytes *= kUnfused;
    cost_.forward += stream_seconds(hardware_, passes.forward * bytes);
    if (context_.wants_gradient) cost_.input += stream_seconds(hardware_, passes.backward * bytes);
  }

  void communicate(double SegmentCost::*pass, double seconds) {
    if (pass == &SegmentCost::input && !context_.wants_gradient) return;
    const bool overlaps = context_.sequence_parallel && context_.kernels == Kernels::Fused &&
                          hardware_.software == Software::Current;
    if (overlaps) seconds *= kExposed;
    cost_.*pass += seconds;
    cost_.tensor_communication += seconds;
  }

  void own(const LayerSpec& layer, double parameters) {
    hold(layer, parameters);
    if (!trains(layer)) return;
    if (context_.accumulates || context_.kernels == Kernels::Eager) {
      cost_.weight += stream_seconds(hardware_, kAccumulateBytes * parameters);
    }
  }

  using Cost = void (Walk::*)(const LayerSpec&);

  /// What a layer of this kind costs.
  static Cost cost_of(std::string_view kind) {
    // clang-format off
    static constexpr std::pair<std::string_view, Cost> kCosts[] = {
        {"linear", &Walk::linear}, {"attention", &Walk::attention}, {"loss", &Walk::loss},
        {"embedding", &Walk::embedding}, {"residual", &Walk::residual}, {"gelu", &Walk::gelu},
        {"swiglu", &Walk::gated}, {"geglu", &Walk::gated},
        {"layernorm", &Walk::norm}, {"rmsnorm", &Walk::norm}, {"qknorm", &Walk::norm},
        {"class_token", &Walk::rows}, {"positions", &Walk::rows}, {"without_first", &Walk::rows},
        {"pixel_shuffle", &Walk::rows}, {"image_join", &Walk::rows}, {"add_rows", &Walk::rows},
        {"kept_rows", &Walk::rows}, {"first_row", &Walk::rows}, {"last_row", &Walk::rows},
        {"picked_row", &Walk::rows}, {"unit_rows", &Walk::rows}, {"concat_port", &Walk::rows},
        // Computed whole on each device, by the products that they declare.
        {"attention_pool", &Walk::products}, {"contrastive_loss", &Walk::products},
        {"sigmoid_loss", &Walk::products},
    };
    // clang-format on
    for (const auto& [known, cost] : kCosts)
      if (known == kind) return cost;
    return &Walk::other;
  }

  /// Of a kind that nothing is known of: the products that it declares, and a way over its y.
  void other(const LayerSpec& layer) {
    products(layer);
    stream(kOther, elements(layer.y) * kElement / tokens_share());
  }

  void norm(const LayerSpec& layer) {
    stream(kNorm, elements(layer.y) * kElement / share());
    hold(layer, to_double(parameter_count(layer)));
  }

  void gelu(const LayerSpec& layer) { stream(kGelu, elements(layer.y) * kElement / share()); }

  /// Parameters whose gradients cost nothing to speak of.
  void hold(const LayerSpec& layer, double parameters) {
    cost_.parameters += parameters;
    if (trains(layer)) cost_.trained += parameters;
  }

  /// Rows that are moved, with learned ones or without. What is never computed with takes no room.
  void rows(const LayerSpec& layer) {
    stream({2, 2}, elements(layer.y) * kElement / tokens_share());
    double parameters = 0;
    for (const ParameterSpec& parameter : layer.parameters)
      if (!parameter.idle) parameters += to_double(parameter.elements());
    hold(layer, parameters);
  }

  void products(const LayerSpec& layer) {
    const auto seconds = [&](const std::vector<MatmulSpec>& pass) {
      double sum = 0;
      for (const MatmulSpec& product : pass)
        sum += matmul_seconds(hardware_, {product.m, product.n, product.k});
      return sum;
    };
    cost_.forward += seconds(layer.forward);
    cost_.input += seconds(layer.backward_input);
    cost_.weight += seconds(layer.backward_weight);
    own(layer, to_double(parameter_count(layer)));
  }

  void linear(const LayerSpec& layer) {
    Product forward{layer.forward.front().m, layer.forward.front().n, layer.forward.front().k};
    const double x = elements(layer.x) * kElement;
    const double y = elements(layer.y) * kElement;
    const bool column = !split_;
    if (column) x_ = x;
    (column ? forward.n : forward.k) /= context_.tensor;
    cost_.forward += matmul_seconds(hardware_, forward);
    if (!layer.backward_input.empty())
      cost_.input += matmul_seconds(hardware_, {forward.m, forward.k, forward.n});
    if (!layer.backward_weight.empty())
      cost_.weight += matmul_seconds(hardware_, {forward.n, forward.k, forward.m});
    own(layer, to_double(parameter_count(layer)) / tensor_);
    split_ = column;
    if (layer.as<LinearAttributes>().bias == Bias::Add && !layer.backward_weight.empty()) {
      cost_.weight += stream_seconds(hardware_, y / share());
    }
    if (column) {
      communicate(&SegmentCost::input, all_reduce_seconds(hardware_, x, group_));
      if (context_.sequence_parallel) {
        communicate(&SegmentCost::input, kExposed * gather_seconds(hardware_, x, group_));
      }
    } else {
      communicate(&SegmentCost::forward, all_reduce_seconds(hardware_, y, group_));
    }
  }

  void attention(const LayerSpec& layer) {
    const auto& attributes = layer.as<AttentionAttributes>();
    const AttentionShape& shape = attributes.shape;
    const std::int64_t heads = std::max<std::int64_t>(1, shape.heads / context_.tensor);
    if (!attributes.rope.frequencies.empty()) {
      const std::int64_t turned = shape.tokens() * (shape.heads + shape.kv_heads) * shape.head_dim;
      stream(kRotary, to_double(turned) * kElement / tensor_);
    }
    if (context_.attention == AttentionKernel::Flash) {
      for (const KeptTensor& kept : layer.kept_by_forward) {
        if (kept.until != Until::Forward) cost_.kept += to_double(kept.tensor.bytes()) / tensor_;
      }
      flash_attention(shape, heads);
    } else {
      plain_attention(shape, heads, elements(layer.x) * kElement / tensor_);
    }
  }

  void flash_attention(const AttentionShape& shape, std::int64_t heads) {
    // What is masked is skipped. Backward has five products where F has two.
    const double flops =
        4 * to_double(shape.sequences * heads * shape.head_dim) * scores_seen(shape);
    cost_.core_attention = flash_seconds(hardware_, flops, FlashPass::Forward, context_.kernels);
    cost_.forward += cost_.core_attention;
    if (context_.wants_gradient)
      cost_.input += flash_seconds(hardware_, 2.5 * flops, FlashPass::Backward, context_.kernels);
  }

  void plain_attention(const AttentionShape& shape, std::int64_t heads, double qkv) {
    const std::int64_t batch = shape.sequences * heads;
    const std::int64_t s = shape.sequence;
    const double scores = to_double(batch * s) * to_double(s);
    const double products = matmul_seconds(hardware_, {s, s, shape.head_dim, batch}) +
                            matmul_seconds(hardware_, {s, shape.head_dim, s, batch});
    const double before = cost_.forward;
    cost_.forward += products;
    if (context_.wants_gradient) cost_.input += 2 * products;
    stream(kSoftmax, scores * kElement);
    stream(kMasking, scores * kElement);
    stream({kTranspose, kTranspose}, qkv);
    cost_.core_attention = cost_.forward - before;
    cost_.scores = context_.wants_gradient ? kScoreBytes * scores : 0;
    cost_.kept += cost_.scores;
  }

  void residual(const LayerSpec& layer) {
    const double bytes = elements(layer.y) * kElement / share();
    // Dropout went out of use together with attention in pieces.
    const bool dropout = context_.attention == AttentionKernel::Plain;
    stream(dropout ? kDropout : kResidual, bytes);
    if (dropout && context_.wants_gradient) cost_.kept += bytes / kElement * kMaskBytes;
  }

  void gated(const LayerSpec& layer) {
    stream(kSwiglu, elements(layer.y) * kElement / share());
    // Gate and up are two layers there, and each sums its own dx.
    if (context_.separate_projections) {
      communicate(&SegmentCost::input, all_reduce_seconds(hardware_, x_, group_));
    }
  }

  void embedding(const LayerSpec& layer) {
    const double y = elements(layer.y) * kElement;
    stream(kEmbedding, y / tokens_share());
    hold(layer, to_double(parameter_count(layer)) / tensor_);
    communicate(&SegmentCost::forward, context_.sequence_parallel
                                           ? gather_seconds(hardware_, y, group_)
                                           : all_reduce_seconds(hardware_, y, group_));
  }

  void loss(const LayerSpec& layer) {
    const double x = elements(layer.x) * kElement;
    const auto& vocabulary = layer.as<LossAttributes>().vocabulary;
    const std::int64_t tokens = layer.x.shape[0];
    const std::int64_t features = layer.x.shape[1];
    const std::int64_t columns = (vocabulary + context_.tensor - 1) / context_.tensor;
    cost_.forward += matmul_seconds(hardware_, {tokens, columns, features});
    cost_.input += matmul_seconds(hardware_, {tokens, features, columns});
    if (trains(layer)) cost_.weight += matmul_seconds(hardware_, {columns, features, tokens});
    own(layer, to_double(columns * features));
    communicate(&SegmentCost::input, all_reduce_seconds(hardware_, x, group_));

    const bool gathered = context_.separate_projections;
    const LogitBytes& bytes = gathered ? kGatheredLogits : kSplitLogits;
    const double logits = to_double(tokens) * to_double(gathered ? vocabulary : columns);
    cost_.forward += stream_seconds(hardware_, bytes.forward * logits);
    cost_.input += stream_seconds(hardware_, bytes.backward * logits);
    if (gathered) {
      communicate(&SegmentCost::forward, gather_seconds(hardware_, kElement * logits, group_));
    }
    cost_.work += bytes.kept * logits;
  }

  const SegmentContext& context_;
  const Hardware& hardware_;
  double tensor_;
  CollectiveGroup group_;
  bool split_ = false;  // features, over the tensor group
  double x_ = 0;        // bytes of x where they were split
  SegmentCost cost_;
};

}  // namespace

SegmentCost segment_cost(const SegmentSpec& segment, const SegmentContext& context) {
  return Walk(context).run(segment);
}

}  // namespace cleave::plan
