// Real programs that find each other over the loopback interface, as users start them.

#include <filesystem>
#include <memory>

#include "app/tiny_run.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using testing::Answer;
using testing::Process;
using testing::TinyRun;
using Keys = TinyRun::Keys;

constexpr seconds kPatience{60};

/// A server, and devices that join it. Each has caches and keys of its own.
class Served {
 public:
  Served(const TinyRun& run, Keys keys, Keys flags) : run_(run) {
    insecure_ = std::ranges::count(flags, "--insecure") > 0;
    flags.insert(flags.end(), {"--listen", "127.0.0.1:0", "--json"});
    if (!insecure_) flags.insert(flags.end(), {"--state", run.path("server")});
    std::vector<std::string> command = run.command(keys, flags);
    *std::ranges::find(command, "train") = "serve";
    server_ = std::make_unique<Process>(command);
    const std::string before = "listening on ";
    if (!server_->prints("to join", kPatience)) throw std::runtime_error(server_->err());
    const std::string said = server_->err();
    const std::size_t at = said.find(before) + before.size();
    address_ = said.substr(at, said.find_first_of(",;", at) - at);
  }

  Process& join(const std::string& name, Keys flags = {}) {
    flags.insert(flags.begin(), {"join", address_, "--name", name});
    flags.push_back(insecure_ ? "--insecure" : "--keys=" + run_.path(name));
    return start(std::move(flags), name);
  }

  std::string invite() {
    const Answer answer =
        testing::run(testing::cleave_command({"serve", "invite", "--state", run_.path("server")}));
    return answer.out.substr(0, answer.out.find('\n'));
  }

  json status(const std::string& keys) {
    Keys flags = {"status", address_, "--json"};
    flags.push_back(insecure_ ? "--insecure" : "--keys=" + keys);
    return json::parse(testing::run(testing::cleave_command(flags)).out);
  }

  /// The report of a run that must succeed, on the server and on every device.
  json report() {
    const Answer answer = server_->wait(kPatience);
    if (answer.exit != 0) throw std::runtime_error(answer.err);
    for (const auto& device : devices_) {
      const Answer joined = device->wait(kPatience);
      if (joined.exit != 0) throw std::runtime_error(joined.err);
    }
    return json::parse(answer.out);
  }

  Process& server() { return *server_; }
  const std::string& address() const { return address_; }

 private:
  Process& start(Keys flags, const std::string& name) {
    std::vector<std::string> command = testing::cleave_command(std::move(flags));
    command.insert(command.begin(), {"env", "XDG_CACHE_HOME=" + run_.path(name + ".cache")});
    return *devices_.emplace_back(std::make_unique<Process>(command));
  }

  const TinyRun& run_;
  bool insecure_;
  std::unique_ptr<Process> server_;
  std::string address_;
  std::vector<std::unique_ptr<Process>> devices_;
};

void expect_planned(const json& report) {
  for (const json& device : report["devices"]) {
    EXPECT_EQ(device["peak_bytes"], device["planned_bytes"]) << device;
    EXPECT_EQ(device["sent"], device["planned_sent"]) << device;
  }
}

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

TEST(ServeFaults, ADeviceThatDiesEndsTheRunByName) {
  const TinyRun run({"parallel.pipeline=2", "train.steps=1000000"});
  Served served(run, {}, {"--insecure"});
  Process& device = served.join("weak");
  ASSERT_TRUE(served.server().prints("step", kPatience));
  EXPECT_EQ(served.status("")["state"], "running");
  device.signal(SIGKILL);
  const Answer answer = served.server().wait(kPatience);
  EXPECT_EQ(answer.exit, 4) << answer.err;
  EXPECT_NE(answer.err.find("device 1 (weak) is lost"), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find("device 1 is lost ("), std::string::npos) << answer.err;
}

TEST(ServeFaults, RefusalsAreToldToTheDevice) {
  const TinyRun run({"parallel.pipeline=2"});
  Served served(run, {}, {});
  const Answer stranger = served.join("stranger").wait(kPatience);
  EXPECT_EQ(stranger.exit, 2);
  EXPECT_NE(stranger.err.find("pass what it prints with --invitation"), std::string::npos);

  const Answer small =
      served.join("small", {"--invitation", served.invite(), "--memory", "1KiB"}).wait(kPatience);
  EXPECT_EQ(small.exit, 2);
  EXPECT_NE(small.err.find("the server refuses: it offers 1.00 KiB, and device 1 needs"),
            std::string::npos)
      << small.err;
  EXPECT_EQ(served.status(run.path("server"))["devices"][1]["state"], "awaited");
}

}  // namespace
}  // namespace cleave
