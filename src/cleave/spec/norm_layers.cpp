#include <algorithm>
#include <utility>

#include "cleave/spec/kernel_scratch.h"
#include "cleave/spec/layer_parts.h"
#include "cleave/spec/layers.h"

namespace cleave::spec {
namespace {

/// The weight that leaves what was normed as it is.
float neutral(NormWeight form) {
  return form == NormWeight::OnePlus ? 0 : 1;
}

LayerSpec norm(std::string kind, const std::string& name, const Flow& flow, std::int64_t features) {
  LayerSpec spec = token_layer(std::move(kind), name, flow, features, features);
  spec.x_until = Until::Input;
  spec.cheap = true;
  spec.parameters.push_back(vector_parameter(name + ".weight", features, 1));
  spec.kept_by_forward = {{{"rstd", DType::F32, {flow.tokens()}}, Until::Input}};
  spec.kept_by_input = {{"dweight", DType::F32, {features}}};
  return spec;
}

}  // namespace

LayerSpec layernorm(const std::string& name, const Flow& flow, std::int64_t features,
                    float epsilon) {
  LayerSpec spec = norm("layernorm", name, flow, features);
  spec.parameters.push_back(vector_parameter(name + ".bias", features, 0));
  spec.kept_by_forward.push_back({{"mean", DType::F32, {flow.tokens()}}, Until::Input});
  spec.kept_by_input.push_back({"dbias", DType::F32, {features}});
  spec.scratch = layernorm_backward_scratch_bytes(flow.tokens(), features);
  spec.attributes = NormAttributes{epsilon};
  return spec;
}

LayerSpec rmsnorm(const std::string& name, const Flow& flow, std::int64_t features, float epsilon,
                  NormWeight form) {
  LayerSpec spec = norm("rmsnorm", name, flow, features);
  spec.parameters[0].init.mean = neutral(form);
  spec.scratch = rmsnorm_backward_scratch_bytes(flow.tokens(), features);
  spec.attributes = NormAttributes{epsilon, form};
  return spec;
}

LayerSpec qknorm(const std::string& name, const Flow& flow, const QkNormShape& shape) {
  const std::int64_t wide = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  QkNormAttributes attributes{.epsilon = shape.epsilon, .form = shape.form};
  std::int64_t first = 0;
  for (const std::int64_t heads : {shape.heads, shape.kv_heads}) {
    const std::int64_t rows = shape.per_head ? heads : 1;
    attributes.parts.push_back({first, rows, heads * shape.head_dim / rows});
    first += heads * shape.head_dim;
  }
  LayerSpec spec = token_layer("qknorm", name, flow, wide, wide);
  spec.x_until = Until::Input;
  const std::string* names[] = {&shape.q_name, &shape.k_name};
  for (std::size_t i = 0; i < attributes.parts.size(); ++i) {
    const auto& [_, count, width] = attributes.parts[i];
    spec.parameters.push_back(vector_parameter(*names[i], width, neutral(shape.form)));
    spec.kept_by_forward.push_back(
        {{"rstd " + *names[i], DType::F32, {count, flow.tokens()}}, Until::Input});
    spec.kept_by_input.push_back({"d " + *names[i], DType::F32, {count, width}});
    spec.scratch = std::max(spec.scratch, rmsnorm_backward_scratch_bytes(flow.tokens(), width));
  }
  spec.attributes = attributes;
  return spec;
}

}  // namespace cleave::spec
