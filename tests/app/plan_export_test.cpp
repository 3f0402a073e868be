#include <initializer_list>
#include <string>
#include <utility>

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
      std::string(kAsked) +
      "--layout tp=4,pp=2,microbatch=2,schedule=zbv,sequence_parallel=true --export torchtitan");
  ASSERT_EQ(answer.exit, 0) << answer.err;
  EXPECT_EQ(
      answer.out,
      "# llama of 32 layers, 4096 wide, on h100-80gb:64\n[training]\nseq_len = 8192\n"
      "local_batch_size = 64\nglobal_batch_size = 512\nmixed_precision_param = \"bfloat16\"\n"
      "\n[parallelism]\ndata_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 1\n"
      "tensor_parallel_degree = 4\npipeline_parallel_degree = 2\n"
      "pipeline_parallel_schedule = \"ZBVZeroBubble\"\npipeline_parallel_microbatch_size = 2\n"
      "pipeline_parallel_layers_per_stage = 8\npipeline_parallel_first_stage_less_layers = 0\n"
      "pipeline_parallel_last_stage_less_layers = 0\n"
      "\n[activation_checkpoint]\nmode = \"none\"\n");
}

TEST(PlanExport, TellsDeepSpeedTheLayout) {
  const auto config = [](const std::string& layout) {
    const Answer answer = run_cleave(kAsked + ("--layout " + layout) + " --export deepspeed");
    EXPECT_EQ(answer.exit, 0) << answer.err;
    return Json::parse(answer.out);
  };
  const Json alone = config("microbatch=1,zero=3");
  EXPECT_EQ(alone["train_batch_size"], 512);
  EXPECT_EQ(alone["gradient_accumulation_steps"], 8);
  EXPECT_EQ(alone["zero_optimization"]["stage"], 3);
  EXPECT_FALSE(alone.contains("pipeline"));
  EXPECT_EQ(config("tp=2,microbatch=1,zero=2")["tensor_parallel"]["autotp_size"], 2);
  const Json pipeline = config("pp=4,microbatch=1,zero=1,recompute=full");
  EXPECT_EQ(pipeline["pipeline"]["stages"], 4);
  EXPECT_EQ(pipeline["pipeline"]["activation_checkpoint_interval"], 1);
}

TEST(PlanExport, SearchesWhatTheOtherSystemHas) {
  const std::string asked = "plan --model gpt3-175b --cluster a100-80gb:1024 --batch 1536 ";
  for (const auto& [system, title] : {std::pair("megatron", "Megatron-LM"),
                                      {"torchtitan", "torchtitan"},
                                      {"deepspeed", "DeepSpeed"}}) {
    const std::string exported = std::string(" --export ") + system;
    const Answer found = run_cleave(asked + exported);
    ASSERT_EQ(found.exit, 0) << found.err;
    EXPECT_NE(found.err.find(std::string("the search kept to what ") + title + " has"),
              std::string::npos)
        << found.err;

    const Json json = Json::parse(run_cleave(asked + exported + " --json").out);
    std::string layout;
    for (const auto& [key, value] : json["layout"].items())
      layout += (layout.empty() ? "" : ",") + key + "=" +
                (value.is_string() ? value.get<std::string>() : value.dump());
    EXPECT_EQ(run_cleave(asked + "--layout " + layout + exported).out, found.out) << layout;
  }
}

TEST(PlanExport, SaysWhatIsFasterThanWhatTheOtherSystemHas) {
  const Answer slower =
      run_cleave("plan --model gpt3-175b --cluster a100-80gb:1024 --batch 1536 --export megatron");
  EXPECT_NE(slower.out.find("--num-layers-per-virtual-pipeline-stage"), std::string::npos)
      << slower.out;
  EXPECT_NE(slower.err.find("schedule=zbv"), std::string::npos) << slower.err;
  EXPECT_NE(slower.err.find(", which it has not, takes "), std::string::npos) << slower.err;
  const Answer equal = run_cleave(std::string(kAsked) + "--export megatron");
  EXPECT_EQ(equal.exit, 0);
  EXPECT_EQ(equal.err,
            "cleave: the search kept to what Megatron-LM has, and nothing else is faster\n");
  const Answer none =
      run_cleave("plan --model gpt3-175b --cluster a100-80gb:8 --batch 8 --export megatron");
  EXPECT_EQ(none.exit, 3);
  EXPECT_NE(none.err.find("no layout that Megatron-LM has fits; the nearest, "), std::string::npos)
      << none.err;
}

TEST(PlanExport, RefusesWhatTheOtherSystemDoesNotHave) {
  struct Refusal {
    const char* system;
    const char* layout;
    const char* sentence;
  };
  for (const auto& [system, layout, sentence] : std::initializer_list<Refusal>{
           {"megatron", "tp=4,pp=2,schedule=zb-h1",
            "Megatron-LM does not have the schedule zb-h1; it has 1f1b, interleaved; change "
            "--layout, or leave it out to search among what Megatron-LM has"},
           {"megatron", "pp=2,zero=3", "Megatron-LM does not have ZeRO 3 with a pipeline"},
           {"megatron", "pp=4,microbatch=16,chunks=2,schedule=interleaved",
            "the schedule interleaved for 2 microbatches on 4 devices of a pipeline"},
           {"torchtitan", "schedule=gpipe", "the schedule gpipe of 1 chunks without a pipeline"},
           {"torchtitan", "zero=1", "does not have ZeRO 1 without a pipeline; it has 0, 2, 3"},
           {"torchtitan", "recompute=selective", "does not have recompute=selective without a"},
           {"torchtitan", "tp=4", "does not have tensor parallelism without sequence_parallel"},
           {"deepspeed", "pp=2,zero=2", "does not have ZeRO 2 with a pipeline; it has 0, 1"},
           {"deepspeed", "recompute=full", "does not have recompute=full without a pipeline"},
           {"deepspeed", "pp=2,recompute=selective", "recompute=selective with a pipeline; it has"},
           {"deepspeed", "tp=2,sequence_parallel=true", "does not have sequence_parallel"},
           {"deepspeed", "tp=2,pp=2", "does not have tensor parallelism with a pipeline"},
           {"deepspeed", "tp=2,zero=3", "does not have ZeRO 3 with tensor parallelism"},
           {"jax", "pp=2", "--export jax is not known; known are megatron, torchtitan, deepspeed"},
       }) {
    const Answer answer =
        run_cleave(std::string(kAsked) + "--layout " + layout + " --export " + system);
    EXPECT_EQ(answer.exit, 2) << layout;
    EXPECT_EQ(answer.out, "") << layout;
    EXPECT_NE(answer.err.find(sentence), std::string::npos) << layout << ": " << answer.err;
  }
  const Answer heads = run_cleave(
      "plan --model llama-1b --cluster h100:8 --batch 8 --layout tp=8 --export megatron");
  EXPECT_NE(heads.err.find("tensor parallelism of 8 devices for 4 key-value heads"),
            std::string::npos)
      << heads.err;
}

TEST(PlanExport, CountsTheEndsAsLayersWhereThatMakesStagesEqual) {
  const std::string deep =
      "plan --model llama3-405b --cluster h100:1024 --batch 1024 --layout "
      "tp=8,pp=16,microbatch=1,zero=1,recompute=full,sequence_parallel=true --export ";
  const Answer megatron = run_cleave(deep + "megatron");
  EXPECT_NE(megatron.out.find("--account-for-embedding-in-pipeline-split "
                              "--account-for-loss-in-pipeline-split"),
            std::string::npos)
      << megatron.err;
  EXPECT_NE(run_cleave(deep + "torchtitan")
                .out.find("layers_per_stage = 8\npipeline_parallel_first_stage_less_layers = 1\n"),
            std::string::npos);
  const Answer uneven = run_cleave(
      "plan --model llama3-8b --cluster h100:24 --batch 48 --layout tp=8,pp=3,zero=0 --export "
      "megatron");
  EXPECT_EQ(uneven.exit, 2);
  EXPECT_NE(uneven.err.find("stages of unequal size, and 32 layers are not divided evenly by 3"),
            std::string::npos)
      << uneven.err;
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
