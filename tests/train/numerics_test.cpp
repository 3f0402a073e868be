#include "cleave/train/step/numerics.h"

#include <mutex>

#include "support/errors.h"
#include <gtest/gtest.h>

#include "cleave/comm/local/local_world.h"
#include "cleave/comm/together.h"

namespace cleave::train {
namespace {

using cleave::testing::user_error;

const ops::InstructionSet kAvx2{.simd = "AVX2"};
const ops::InstructionSet kSse4{.simd = "SSE4", .fused = false};
const ops::InstructionSet kBf16{.simd = "AVX3", .bf16_dot = true};
const ops::InstructionSet kSlowDot{.simd = "AVX3", .bf16_dot = true, .dot_is_faster = false};

Config config_of(DType dtype, std::optional<bool> exact = {}) {
  Config config;
  config.train.dtype = dtype;
  config.numerics.exact = exact;
  return config;
}

bool resolved(Config config, const ops::InstructionSet& set) {
  comm::LocalWorld alone(1);
  resolve_numerics(config, set, *alone.join(0));
  return *config.numerics.exact;
}

TEST(Numerics, AreExactWhereThatCostsNothing) {
  EXPECT_TRUE(resolved(config_of(DType::F32), kAvx2));
  EXPECT_TRUE(resolved(config_of(DType::BF16), kAvx2));
  EXPECT_TRUE(resolved(config_of(DType::F32), kBf16));
  EXPECT_FALSE(resolved(config_of(DType::BF16), kBf16));
  EXPECT_TRUE(resolved(config_of(DType::BF16), kSlowDot));
  EXPECT_FALSE(resolved(config_of(DType::F32), kSse4));
}

TEST(Numerics, AreWhatTheConfigSays) {
  EXPECT_TRUE(resolved(config_of(DType::BF16, true), kBf16));
  EXPECT_FALSE(resolved(config_of(DType::F32, false), kAvx2));
  EXPECT_EQ(user_error([] { resolved(config_of(DType::F32, true), kSse4); }),
            "the processor has no fused multiply-add (its instruction set is SSE4), which "
            "numerics.exact = true needs; set it to false, or leave it out, and accept bits of its "
            "own");
}

TEST(Numerics, SayWhoSharesTheBits) {
  using ops::Arithmetic;
  const std::string exact = "exact: those of every processor with fused multiply-add";
  EXPECT_EQ(describe_bits(Arithmetic::Exact, DType::BF16, kBf16), exact);
  EXPECT_EQ(describe_bits(Arithmetic::Fastest, DType::BF16, kBf16), "those of AVX-512-BF16");
  EXPECT_EQ(describe_bits(Arithmetic::Fastest, DType::F32, kBf16), exact);
  EXPECT_EQ(describe_bits(Arithmetic::Fastest, DType::F32, kSse4), "those of SSE4");
}

/// What each of two devices answers, or the error of the one that has something to say.
std::vector<std::string> on_two(const ops::InstructionSet& first, const ops::InstructionSet& second,
                                DType dtype) {
  std::mutex mutex;
  std::vector<std::string> answers(2);
  comm::run_devices(2, [&](comm::Communicator& world) {
    Config config = config_of(dtype);
    std::string answer;
    try {
      resolve_numerics(config, world.rank() == 0 ? first : second, world);
      answer = *config.numerics.exact ? "exact" : "fastest";
    } catch (const UserError& error) {
      answer = error.what();
    } catch (const comm::PeerFailed&) {
      answer = "";
    }
    const std::lock_guard lock(mutex);
    answers[static_cast<std::size_t>(world.rank())] = answer;
  });
  return answers;
}

using Answers = std::vector<std::string>;

TEST(Numerics, AreExactAsSoonAsProcessorsDiffer) {
  EXPECT_EQ(on_two(kBf16, kBf16, DType::BF16), (Answers{"fastest", "fastest"}));
  EXPECT_EQ(on_two(kBf16, kSlowDot, DType::BF16), (Answers{"exact", "exact"}));
  EXPECT_EQ(on_two(kBf16, kAvx2, DType::BF16), (Answers{"exact", "exact"}));
  EXPECT_EQ(on_two(kBf16, kAvx2, DType::F32), (Answers{"exact", "exact"}));
  EXPECT_EQ(on_two(kSse4, kSse4, DType::F32), (Answers{"fastest", "fastest"}));
  EXPECT_EQ(on_two(kAvx2, kSse4, DType::F32),
            (Answers{"",
                     "the processor of device 1 has no fused multiply-add (its instruction set "
                     "is SSE4), which devices with different processors need; set "
                     "numerics.exact to false and accept that bits depend on who computes "
                     "what"}));
}

}  // namespace
}  // namespace cleave::train
