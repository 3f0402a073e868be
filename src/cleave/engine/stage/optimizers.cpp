#include "cleave/base/check.h"
#include "cleave/base/elementary.h"
#include "cleave/base/nearest.h"
#include "cleave/engine/stage/optimizer.h"
#include "cleave/ops/adamw.h"

namespace cleave::engine {
namespace {

/// What a device computes with, where that is a copy of the master weights.
View copy_of(const ParameterState& parameter) {
  return parameter.value.bytes() != parameter.master.bytes() ? parameter.value : View();
}

double decay_of(const ParameterState& parameter, const UpdateStep& at) {
  return parameter.spec->decay == Decay::Yes ? at.hyper.weight_decay : 0;
}

/// As torch.optim.AdamW computes it.
void update_adamw(ops::Compute& compute, const ParameterState& parameter, const UpdateStep& at) {
  const auto& [beta1, beta2] = at.hyper.betas;
  const std::int64_t taken = at.step + 1;
  ops::adamw(compute,
             {.master = parameter.master,
              .m = parameter.slot("m"),
              .v = parameter.slot("v"),
              .gradient = parameter.gradient,
              .copy = copy_of(parameter)},
             {.lr = at.lr,
              .beta1 = beta1,
              .beta2 = beta2,
              .weight_decay = decay_of(parameter, at),
              .bias_correction1 = 1 - power(beta1, taken),
              .bias_correction2 = 1 - power(beta2, taken),
              .gradient_scale = at.gradient_scale});
}

/// The same slots beside every parameter.
auto always(std::vector<std::string> slots) {
  return [slots = std::move(slots)](const ParameterSpec&, const Hyper&) { return slots; };
}

std::vector<OptimizerKind> all_optimizers() {
  return {{.name = "adamw",
           .slots = always({"m", "v"}),
           .update = update_adamw,
           .keys = {"train.betas", "train.weight_decay"}}};
}

}  // namespace

std::span<const OptimizerKind> optimizers() {
  static const std::vector<OptimizerKind> all = all_optimizers();
  return all;
}

const OptimizerKind& find_optimizer(std::string_view name) {
  std::vector<std::string_view> names;
  std::string list;
  for (const OptimizerKind& kind : optimizers()) {
    if (kind.name == name) return kind;
    names.push_back(kind.name);
    list += (list.empty() ? "" : ", ") + kind.name;
  }
  throw UserError(detail::concat("train.optimizer is \"", name, "\"; it must be one of ", list,
                                 did_you_mean(name, names)));
}

void give_slots(std::span<SegmentSpec> segments, const OptimizerKind& optimizer,
                const Hyper& hyper) {
  for (SegmentSpec& segment : segments) {
    for (LayerSpec& layer : segment.layers) {
      for (ParameterSpec& parameter : layer.parameters)
        parameter.slots = optimizer.slots(parameter, hyper);
    }
  }
}

}  // namespace cleave::engine
