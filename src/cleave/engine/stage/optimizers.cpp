#include <algorithm>

#include "cleave/base/check.h"
#include "cleave/base/elementary.h"
#include "cleave/base/nearest.h"
#include "cleave/engine/stage/add_optimizer.h"
#include "cleave/engine/stage/optimizer.h"
#include "cleave/ops/adamw.h"
#include "cleave/ops/momentum.h"
#include "cleave/ops/muon.h"

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

/// As torch.optim.SGD computes it: weight decay is part of the gradient.
void update_sgd(ops::Compute& compute, const ParameterState& parameter, const UpdateStep& at) {
  ops::sgd(compute,
           {.master = parameter.master,
            .momentum = at.hyper.momentum > 0 ? parameter.slot("momentum") : View(),
            .gradient = parameter.gradient,
            .copy = copy_of(parameter)},
           {.lr = at.lr,
            .momentum = at.hyper.momentum,
            .weight_decay = decay_of(parameter, at),
            .gradient_scale = at.gradient_scale});
}

void update_lion(ops::Compute& compute, const ParameterState& parameter, const UpdateStep& at) {
  ops::lion(compute,
            {.master = parameter.master,
             .momentum = parameter.slot("momentum"),
             .gradient = parameter.gradient,
             .copy = copy_of(parameter)},
            {.lr = at.lr,
             .beta1 = at.hyper.betas[0],
             .beta2 = at.hyper.betas[1],
             .weight_decay = decay_of(parameter, at),
             .gradient_scale = at.gradient_scale});
}

/// Every matrix as checkpoints name them; AdamW for what is no matrix between hidden features.
void update_muon(ops::Compute& compute, const ParameterState& parameter, const UpdateStep& at) {
  if (!parameter.spec->hidden) return update_adamw(compute, parameter, at);
  const std::int64_t columns = parameter.spec->shape[1];
  for (const Piece& piece : parameter.spec->pieces) {
    const std::int64_t begin = piece.first * columns - parameter.first;
    if (begin < 0 || begin >= parameter.elements()) continue;  // another replica's
    const auto matrix = [&](View share) {
      return share.slice(0, begin, piece.extent * columns).reshaped({piece.extent, columns});
    };
    const View copy = copy_of(parameter);
    ops::muon(compute,
              {.master = matrix(parameter.master),
               .momentum = matrix(parameter.slot("momentum")),
               .gradient = matrix(parameter.gradient),
               .copy = copy ? matrix(copy) : View()},
              {.lr = at.lr,
               .momentum = at.hyper.momentum,
               .weight_decay = decay_of(parameter, at),
               .gradient_scale = at.gradient_scale});
  }
}

std::int64_t muon_scratch(ops::Compute& compute, const ParameterSpec& parameter) {
  std::int64_t most = 0;
  if (!parameter.hidden) return most;
  for (const Piece& piece : parameter.pieces)
    most = std::max(most, ops::muon_scratch_bytes(compute, piece.extent, parameter.shape[1]));
  return most;
}

std::vector<std::string> sgd_slots(const ParameterSpec&, const Hyper& hyper) {
  return hyper.momentum > 0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
}

std::vector<std::string> muon_slots(const ParameterSpec& parameter, const Hyper&) {
  return parameter.hidden ? std::vector<std::string>{"momentum"}
                          : std::vector<std::string>{"m", "v"};
}

/// The same slots beside every parameter.
auto always(std::vector<std::string> slots) {
  return [slots = std::move(slots)](const ParameterSpec&, const Hyper&) { return slots; };
}

std::vector<OptimizerKind> all_optimizers() {
  return {{.name = "adamw",
           .slots = always({"m", "v"}),
           .update = update_adamw,
           .keys = {"train.betas", "train.weight_decay"}},
          {.name = "sgd",
           .slots = sgd_slots,
           .update = update_sgd,
           .keys = {"train.momentum", "train.weight_decay"},
           .momentum = 0.9},
          {.name = "lion",
           .slots = always({"momentum"}),
           .update = update_lion,
           .keys = {"train.betas", "train.weight_decay"}},
          {.name = "muon",
           .slots = muon_slots,
           .update = update_muon,
           .keys = {"train.betas", "train.momentum", "train.weight_decay"},
           .momentum = 0.95,
           .whole = [](const ParameterSpec& parameter) { return parameter.hidden; },
           .scratch = muon_scratch}};
}

/// References to rows are handed out, so the table never moves.
constexpr std::size_t kMostOptimizers = 64;

std::vector<OptimizerKind>& optimizer_table() {
  static std::vector<OptimizerKind> table = [] {
    std::vector<OptimizerKind> all = all_optimizers();
    for (OptimizerKind& kind : all) kind.on_accelerators = true;
    all.reserve(kMostOptimizers);
    return all;
  }();
  return table;
}

}  // namespace

std::span<const OptimizerKind> optimizers() {
  return optimizer_table();
}

void add_optimizer(OptimizerKind kind) {
  require(std::ranges::find(optimizers(), kind.name, &OptimizerKind::name) == optimizers().end(),
          "there is an optimizer \"", kind.name, "\" already; give yours another name");
  require(optimizers().size() < kMostOptimizers, "there are ", kMostOptimizers,
          " optimizers already; add fewer");
  optimizer_table().push_back(std::move(kind));
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
      for (ParameterSpec& parameter : layer.parameters) {
        parameter.slots.clear();
        if (parameter.trainable) parameter.slots = optimizer.slots(parameter, hyper);
        parameter.whole_pieces =
            parameter.trainable && optimizer.whole && optimizer.whole(parameter);
      }
    }
  }
}

}  // namespace cleave::engine
