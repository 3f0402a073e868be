// Real programs that find each other over the loopback interface, as users start them.

#include <filesystem>
#include <memory>

#include "app/expect_planned.h"
#include "app/served.h"
#include "data/packed_numbers.h"
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cleave {
namespace {

using nlohmann::json;
using testing::Answer;
using testing::expect_planned;
using testing::kServedPatience;
using testing::Process;
using testing::Served;
using testing::TinyRun;
using Keys = TinyRun::Keys;

TEST(ServeSameBits, OverTcpAsOnOneDevice) {
  const TinyRun run({"numerics.data_shards=2", "numerics.tensor_shards=2"});
  const json alone = run.report();
  const std::vector<Keys> layouts = {{"parallel.pipeline=2"},
                                     {"parallel.pipeline=2", "parallel.data=2", "parallel.zero=1"},
                                     {"parallel.tensor=2", "parallel.data=2", "parallel.zero=3"}};
  for (const Keys& layout : layouts) {
    Served served(run, layout, {"--insecure", "--overwrite"});
    const int devices = layout.size() == 1 ? 2 : 4;
    for (int i = 1; i < devices; ++i) served.join("device" + std::to_string(i));
    const json report = served.report();
    EXPECT_EQ(report["weights"], alone["weights"]);
    EXPECT_EQ(report["loss"], alone["loss"]);
    expect_planned(report);
  }
}

TEST(ServeSameBits, WithTlsAndFilesThatOnlyTheServerSees) {
  const TinyRun run({"parallel.pipeline=2"});
  const Keys first = {"train.steps=9", "train.warmup=2"};
  const TinyRun alone;
  alone.report(first);
  const auto train = [&](const Keys& keys, const Keys& flags, const Keys& join) {
    Served served(run, keys, flags);
    Keys mine = join;
    if (mine.empty()) mine = {"--invitation", served.invite()};
    served.join("phone", mine);
    return served.report();
  };
  train(first, {}, {});
  EXPECT_TRUE(std::filesystem::exists(run.path("phone/key.pem")));
  EXPECT_FALSE(std::filesystem::is_empty(run.path("phone.cache/cleave/files")));

  const json resumed = train({}, {"--resume"}, {"--memory", "1GiB"});
  EXPECT_EQ(resumed["weights"], alone.report({}, {"--resume"})["weights"]);
}

// The end of a document has its name from the file beside the tokenizer; without that file it would
// be another token, </s>.
TEST(ServeSameBits, WithTheFilesOfAPatternAndOfATokenizer) {
  const TinyRun run;
  const testing::TemporaryDirectory& directory = run.directory();
  for (const char* shard : {"1", "2", "3"})
    directory.write("shard-" + std::string(shard) + ".txt", std::string(400, 'a') + shard);
  directory.write("tokenizer.json",
                  R"({"model": {"type": "BPE", "merges": ["a a"], "vocab": {"a": 0, "1": 1, "2": 2,
                      "3": 3, "aa": 4, "</s>": 5, "<stop>": 6}}})");
  directory.write("tokenizer_config.json", R"({"eos_token": "<stop>"})");
  const Keys data = {"data.path=" + run.path("shard-*.txt"),
                     "data.tokenizer=" + run.path("tokenizer.json")};
  const json alone = run.report(data);

  Served served(run, {data[0], data[1], "parallel.pipeline=2"}, {"--insecure", "--overwrite"});
  served.join("phone");

  EXPECT_EQ(served.report()["weights"], alone["weights"]);
}

// Without the index beside them, numbers of 32 bits would be taken for twice as many of 16 bits.
TEST(ServeSameBits, WithTokensThatAnIndexDescribes) {
  const TinyRun run;
  std::vector<std::int32_t> tokens(2000);
  for (int i = 0; i < std::ssize(tokens); ++i) tokens[i] = 1 + i * i % 97;
  run.directory().write("m.bin", testing::packed(tokens));
  run.directory().write(
      "m.idx", std::string("MMIDIDX\0\0", 9) + testing::packed<std::uint64_t>({1}) + '\x04' +
                   testing::packed<std::uint64_t>({1, 2}) + testing::packed<std::int32_t>({2000}) +
                   testing::packed<std::int64_t>({0, 0, 1}));
  const Keys data = {"data.path=" + run.path("m.bin")};
  const json alone = run.report(data);

  Served served(run, {data[0], "parallel.pipeline=2"}, {"--insecure", "--overwrite"});
  served.join("phone");

  EXPECT_EQ(served.report()["weights"], alone["weights"]);
}

TEST(ServeFaults, ADeviceThatDiesEndsARunThatIsNotElasticByName) {
  const TinyRun run({"parallel.pipeline=2", "train.steps=1000000", "train.elastic=false"});
  Served served(run, {}, {"--insecure"});
  Process& device = served.join("weak");
  ASSERT_TRUE(served.server().prints("step", kServedPatience));
  EXPECT_EQ(served.status("")["state"], "running");
  device.signal(SIGKILL);
  const Answer answer = served.server().wait(kServedPatience);
  EXPECT_EQ(answer.exit, 4) << answer.err;
  EXPECT_NE(answer.err.find("device 1 (weak) is lost"), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find("device 1 is lost ("), std::string::npos) << answer.err;
}

/// An address at which nobody listens.
std::string silent_address() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof name;
  bind(probe, reinterpret_cast<sockaddr*>(&name), size);
  getsockname(probe, reinterpret_cast<sockaddr*>(&name), &size);
  close(probe);
  return "127.0.0.1:" + std::to_string(ntohs(name.sin_port));
}

TEST(ServeFaults, ADeviceThatComesFirstWaitsForTheServer) {
  const TinyRun run({"parallel.pipeline=2"});
  const std::string address = silent_address();
  Keys command = testing::cleave_command({"join", address, "--insecure", "--name", "early"});
  command.insert(command.begin(), {"env", "XDG_CACHE_HOME=" + run.path("early.cache")});
  Process early(command);
  ASSERT_TRUE(early.prints("trying to join for 10m 00s", kServedPatience)) << early.err();

  Served served(run, {}, {"--insecure", "--listen", address});

  EXPECT_EQ(served.report()["weights"], TinyRun().report()["weights"]);
  EXPECT_EQ(early.wait(kServedPatience).exit, 0) << early.err();
}

TEST(ServeFaults, ADeviceGivesUpWhenItsTimeIsOver) {
  const std::string address = silent_address();
  const auto join = [&](const std::string& seconds) {
    return testing::run(
        testing::cleave_command({"join", address, "--insecure", "--retry", seconds}));
  };

  const Answer at_once = join("0");
  EXPECT_EQ(at_once.exit, 4);
  EXPECT_EQ(at_once.err.find("trying"), std::string::npos) << at_once.err;
  const Answer later = join("0.7");
  EXPECT_EQ(later.exit, 4);
  EXPECT_NE(later.err.find("; trying to join for 700 ms"), std::string::npos) << later.err;
}

TEST(ServeFaults, RefusalsAreToldToTheDevice) {
  const TinyRun run({"parallel.pipeline=2"});
  Served served(run, {}, {});
  const Answer stranger = served.join("stranger").wait(kServedPatience);
  EXPECT_EQ(stranger.exit, 2);
  EXPECT_NE(stranger.err.find("pass what it prints with --invitation"), std::string::npos);

  const Answer small = served.join("small", {"--invitation", served.invite(), "--memory", "1KiB"})
                           .wait(kServedPatience);
  EXPECT_EQ(small.exit, 2);
  EXPECT_NE(small.err.find("the server refuses: it offers 1.00 KiB, and device 1 needs"),
            std::string::npos)
      << small.err;
  EXPECT_EQ(served.status(run.path("server"))["devices"][1]["state"], "awaited");
}

}  // namespace
}  // namespace cleave
