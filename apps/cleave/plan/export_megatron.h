#pragma once

#include <string>
#include <vector>

#include "cleave/plan/tune/analytic/workload.h"

namespace cleave::app {

/// Throws UserError if pretrain_gpt.py has no such model.
void check_megatron_model(const ModelShape& model);

/// "torchrun --nnodes 128 --nproc-per-node 8 pretrain_gpt.py".
std::string megatron_program(const plan::Workload& work, const plan::Layout& layout);

/// Each with its value: "--num-layers 96". Megatron-LM has the model and the layout.
std::vector<std::string> megatron_flags(const plan::Workload& work, const plan::Layout& layout);

}  // namespace cleave::app
