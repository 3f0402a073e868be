// The updates of optimizers on the first accelerator of this machine and on the processor: all
// tensors have the same bits afterwards.
#include "ops/twins.h"
#include <gtest/gtest.h>

#include "cleave/ops/adamw.h"
#include "cleave/ops/elementwise.h"
#include "cleave/ops/momentum.h"
#include "cleave/ops/muon.h"

namespace cleave::ops {
namespace {

class UpdatesOnAccelerator : public testing::OnAccelerator {};
using Named = testing::Twins::Named;
using At = testing::Twins::At;

TEST_P(UpdatesOnAccelerator, HaveTheBitsOfTheProcessor) {
  const std::int64_t count = 70 * 33;
  Named f[5] = {twins().random(DType::F32, {70, 33}), twins().random(DType::F32, {70, 33}),
                twins().random(DType::F32, {70, 33}), twins().random(DType::F32, {70, 33}),
                twins().random(DType::F32, {70, 33})};
  const Named copy_of = twins().random(DType::BF16, {70, 33});
  const bool rounded = dtype() == DType::BF16;
  twins().expect_same("updates", [&](Compute& c, const At& at) {
    const View copy = rounded ? at(copy_of) : View();
    weighted_sum(c, {at(f[2]), 0.5f}, {at(f[2]), 0.5f}, at(f[2]));
    const auto flat = [&](const Named& n) { return at(n).reshaped({count}); };
    fill(c, 0.25f, at(f[2]));
    adamw(c,
          {flat(f[0]), flat(f[1]), flat(f[2]), flat(f[3]), rounded ? copy.reshaped({count}) : copy},
          {.lr = 1e-2,
           .weight_decay = 0.1,
           .bias_correction1 = 0.1,
           .bias_correction2 = 0.01,
           .gradient_scale = 0.7});
    sgd(c, {flat(f[0]), flat(f[4]), flat(f[3])},
        {.lr = 0.01, .momentum = 0.9, .weight_decay = 0.1});
    sgd(c, {.master = flat(f[0]), .gradient = flat(f[3])}, {.lr = 0.01, .weight_decay = 0.1});
    lion(c, {flat(f[0]), flat(f[4]), flat(f[3])}, {.lr = 0.01, .weight_decay = 0.1});
    muon(c, {at(f[0]), at(f[4]), at(f[3]), copy}, {.lr = 0.02, .weight_decay = 0.1});
  });
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, UpdatesOnAccelerator,
                         ::testing::Values(DType::F32, DType::BF16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace cleave::ops
