#include <string>

#include "app/run_cleave.h"
#include "support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cleave {
namespace {

using testing::Answer;
using testing::run_cleave;
using testing::TemporaryDirectory;
using Json = nlohmann::json;

constexpr const char* kAsked = "plan --model llama3-8b --cluster h100:64 --batch 512 ";

TEST(PlanExport, TellsMegatronTheLayout) {
  const Answer answer = run_cleave(
      std::string(kAsked) +
      "--layout tp=4,pp=2,microbatch=2,chunks=2,zero=1,recompute=full,sequence_parallel=true "
      "--export megatron");
  ASSERT_EQ(answer.exit, 0) << answer.err;
  for (const char* flag :
       {"torchrun --nnodes 8 --nproc-per-node 8 pretrain_gpt.py", "--tensor-model-parallel-size 4",
        "--pipeline-model-parallel-size 2", "--num-layers-per-virtual-pipeline-stage 8",
        "--sequence-parallel", "--use-distributed-optimizer", "--recompute-granularity full",
        "--micro-batch-size 2", "--global-batch-size 512", "--num-layers 32", "--hidden-size 4096",
        "--group-query-attention --num-query-groups 8", "--seq-length 8192", "--swiglu",
        "--untie-embeddings-and-output-weights"}) {
    EXPECT_NE(answer.out.find(flag), std::string::npos) << flag << " in\n" << answer.out;
  }
}

TEST(PlanExport, TellsTorchtitanTheLayout) {
  const Answer answer = run_cleave(
      std::string(kAsked) + "--layout tp=4,pp=2,microbatch=2,schedule=zbv --export torchtitan");
  ASSERT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(
      answer.out,
      "# llama of 32 layers, 4096 wide, on h100-80gb:64\n[training]\nseq_len = 8192\n"
      "local_batch_size = 64\nglobal_batch_size = 512\nmixed_precision_param = \"bfloat16\"\n"
      "\n[parallelism]\ndata_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 1\n"
      "tensor_parallel_degree = 4\npipeline_parallel_degree = 2\n"
      "pipeline_parallel_schedule = \"ZBVZeroBubble\"\npipeline_parallel_microbatch_size = 2\n"
      "\n[activation_checkpoint]\nmode = \"none\"\n");
}

TEST(PlanExport, TellsDeepSpeedTheLayout) {
  const Answer answer =
      run_cleave(std::string(kAsked) + "--layout tp=2,microbatch=1,zero=3 --export deepspeed");
  ASSERT_EQ(answer.exit, 0) << answer.err;
  const Json json = Json::parse(answer.out);
  EXPECT_EQ(json["train_batch_size"], 512);
  EXPECT_EQ(json["gradient_accumulation_steps"], 16);
  EXPECT_EQ(json["zero_optimization"]["stage"], 3);
  EXPECT_EQ(json["tensor_parallel"]["autotp_size"], 2);
  EXPECT_FALSE(json.contains("pipeline"));
}

TEST(PlanExport, RefusesWhatTheOtherSystemDoesNotHave) {
  const Answer schedule =
      run_cleave(std::string(kAsked) + "--layout tp=4,pp=2,schedule=zb-h1 --export megatron");
  EXPECT_EQ(schedule.exit, 2);
  EXPECT_NE(schedule.err.find("Megatron-LM does not have the schedule zb-h1"), std::string::npos)
      << schedule.err;
  const Answer system = run_cleave(std::string(kAsked) + "--layout pp=2 --export jax");
  EXPECT_EQ(system.exit, 2);
  EXPECT_NE(system.err.find("--export jax is not known; known are megatron, torchtitan, deepspeed"),
            std::string::npos)
      << system.err;
}

TEST(PlanOfAConfig, RefusesTheFlagsThatGoWithACluster) {
  const auto refusal = [](const std::string& flags) {
    const Answer answer = run_cleave("plan run.toml " + flags);
    EXPECT_EQ(answer.exit, 2) << flags;
    return answer.err;
  };
  EXPECT_NE(refusal("--export megatron")
                .find("--export megatron prints layouts that are planned with --model and "
                      "--cluster, not that of a run config; leave it out"),
            std::string::npos);
  EXPECT_NE(
      refusal("--tokens 1B").find("--tokens 1B goes with --model and --cluster; leave it out"),
      std::string::npos);
  EXPECT_NE(refusal("--price 2").find("--price 2 goes with --model, --cluster and --tokens; leave"),
            std::string::npos);
}

TEST(PlanCluster, ComesFromAFile) {
  const TemporaryDirectory directory;
  const std::string own = directory.write("own.toml",
                                          "like = \"h100-80gb\"\nname = \"ours\"\ndevices = 64\n"
                                          "price_per_hour = 2.0\n");
  const std::string rest = " --batch 512 --layout tp=4,pp=2,microbatch=2 --json";
  const Json known = Json::parse(run_cleave("plan --model llama3-8b --cluster h100:64" + rest).out);
  const Answer asked =
      run_cleave("plan --model llama3-8b --cluster " + own + " --tokens 1T" + rest);
  ASSERT_EQ(asked.exit, 0) << asked.err;
  const Json same = Json::parse(asked.out);
  EXPECT_EQ(same["cluster"], "ours:64");
  EXPECT_EQ(same["step_seconds"], known["step_seconds"]);
  EXPECT_EQ(same["tokens_per_second"], 512 * 8192 / same["step_seconds"].get<double>());
  EXPECT_DOUBLE_EQ(same["days"], 1e12 / same["tokens_per_second"].get<double>() / 86400);
  EXPECT_DOUBLE_EQ(same["cost"], same["days"].get<double>() * 24 * 64 * 2);
  EXPECT_DOUBLE_EQ(same["mfu"], same["tflops_per_device"].get<double>() / 989);

  const std::string slow = directory.write(
      "slow.toml",
      "devices = 64\npeak_tflops = 100\nmemory = \"80GiB\"\nmemory_gb_per_second = 1000\n"
      "link_gb_per_second = 100\nnetwork_gb_per_second = 10\nnode = 4\n");
  const Json slower =
      Json::parse(run_cleave("plan --model llama3-8b --cluster " + slow + rest).out);
  EXPECT_GT(slower["step_seconds"].get<double>(), 3 * known["step_seconds"].get<double>());
}

TEST(PlanCluster, SaysWhatIsWrongWithAFile) {
  const TemporaryDirectory directory;
  const auto refusal = [&](const std::string& text) {
    const Answer answer = run_cleave("plan --model llama3-8b --batch 8 --cluster " +
                                     directory.write("own.toml", text));
    EXPECT_EQ(answer.exit, 2);
    return answer.err;
  };
  EXPECT_NE(refusal("devices = 8\npeak_tflops = 100\n").find("says nothing of memory"),
            std::string::npos);
  EXPECT_NE(refusal("like = \"h100\"\n").find("does not say how many devices"), std::string::npos);
  EXPECT_NE(refusal("device = 8\n").find("is no key of a cluster; did you mean devices?"),
            std::string::npos);
  const Answer tokens = run_cleave(std::string(kAsked) + "--layout tp=8 --tokens many");
  EXPECT_EQ(tokens.exit, 2);
  EXPECT_NE(tokens.err.find("--tokens many is no number of tokens"), std::string::npos)
      << tokens.err;
}

}  // namespace
}  // namespace cleave
