#include "cleave/engine/compile/lowering.h"

#include <algorithm>

#include "cleave/base/check.h"

namespace cleave::engine {

std::vector<std::vector<plan::Keep>> keep_of(std::span<const std::vector<SegmentSpec>> stages,
                                             std::span<const schedule::Recompute> recompute) {
  std::size_t blocks = 0;
  for (const auto& stage : stages)
    blocks += static_cast<std::size_t>(std::ranges::count(stage, true, &SegmentSpec::block));
  require(recompute.size() <= 1 || recompute.size() == blocks, "parallel.recompute lists ",
          recompute.size(), " layers, and the model has ", blocks,
          "; give one choice for each, or one for all");
  std::vector<std::vector<plan::Keep>> keep;
  std::size_t next = 0;  // of all blocks
  for (const auto& stage : stages) {
    keep.emplace_back(stage.size(), plan::Keep::Everything);
    for (std::size_t s = 0; s < stage.size(); ++s) {
      if (recompute.empty() || !stage[s].block) continue;
      const schedule::Recompute chosen = recompute.size() == 1 ? recompute[0] : recompute[next++];
      if (chosen == schedule::Recompute::Full) keep.back()[s] = plan::Keep::Inputs;
      if (chosen == schedule::Recompute::Selective) keep.back()[s] = plan::Keep::Costly;
    }
  }
  return keep;
}

schedule::LowerOptions lowering_of(std::span<const std::vector<plan::Keep>> keep,
                                   const Layout& layout) {
  schedule::LowerOptions options{.replicas = layout.copies_of_order(),
                                 .grain = schedule::Grain::Segment,
                                 .sharing = static_cast<schedule::Sharing>(layout.zero),
                                 .offload = layout.offload.value_or(schedule::Offload::Nothing),
                                 .receive_ahead = layout.receive_ahead};
  for (const auto& stage : keep) {
    std::vector<bool> keeping;
    for (const plan::Keep kept : stage) keeping.push_back(kept == plan::Keep::Everything);
    const bool all = std::ranges::count(keeping, false) == 0;
    options.recompute.push_back(all ? schedule::Recompute::None : schedule::Recompute::Full);
    options.keeping.push_back(std::move(keeping));
  }
  return options;
}

void check_weights_of_w(const Graph& model, const Layout& layout,
                        const schedule::Program& program) {
  const auto* loss = model.segments.back().layers.back().attributes.get_if<LossAttributes>();
  if (layout.zero < 3 || loss == nullptr || loss->blocks == 1) return;
  const bool splits = std::ranges::any_of(program.lists, [](const auto& list) {
    return std::ranges::count(list, schedule::Op::BackwardWeight, &schedule::Instruction::op) > 0;
  });
  require(!splits, "train.loss_blocks ", loss->blocks,
          " computes logits again in W, and parallel.zero 3 gathers no weights for it in schedule ",
          program.schedule, "; use train.loss_blocks 1, parallel.zero 2, or schedule 1f1b");
}

}  // namespace cleave::engine
