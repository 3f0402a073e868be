// Devices that cannot reach each other: what they send goes through the server, is measured,
// planned and counted as any other way, and changes no bit.

#include <thread>

#include "app/expect_planned.h"
#include "app/served.h"
#include "support/other_address.h"
#include <gtest/gtest.h>

namespace cleave {
namespace {

using nlohmann::json;
using testing::expect_planned;
using testing::kServedPatience;
using testing::OtherAddress;
using testing::Served;
using testing::TinyRun;
using Keys = TinyRun::Keys;

/// Two devices behind a router: each reaches the server, and none the other.
class Behind {
 public:
  explicit Behind(Served& served)
      : router_(static_cast<std::uint16_t>(
            std::stoi(served.address().substr(served.address().rfind(':') + 1)))) {
    for (const char* name : {"left", "right"}) served.join_at(router_.address(), name);
  }

 private:
  OtherAddress router_;
};

TEST(RelayedDevices, GiveTheBitsOfThoseThatReachEachOther) {
  const TinyRun alone, near, apart;
  const Keys keys = {"parallel.pipeline=3"};
  Served direct(near, keys, {"--insecure"});
  direct.join("left");
  direct.join("right");
  const json by_hand = direct.report();
  Served served(apart, keys, {"--insecure"});
  const Behind behind(served);
  const json relayed = served.report();

  EXPECT_EQ(by_hand["weights"], alone.report()["weights"]);
  EXPECT_EQ(relayed["weights"], by_hand["weights"]);
  expect_planned(by_hand);
  expect_planned(relayed);
  const std::string through = "device 2 reaches device 1 through the server";
  EXPECT_EQ(direct.server().err().find(through), std::string::npos);
  const std::string said = served.server().err();
  const std::size_t first = said.find(through);
  ASSERT_NE(first, std::string::npos) << said;
  // Once to measure the link, and once to use it.
  EXPECT_NE(said.find(through, first + 1), std::string::npos) << said;
}

TEST(RelayedDevices, AreMeasuredByTheSurveyAndShownByTheStatus) {
  const TinyRun run({"train.steps=100000"});
  // What is open is planned from the links that were measured.
  Served served(run, {"parallel.pipeline=3", "parallel.zero=auto", "train.microbatch=1"},
                {"--insecure"});
  const Behind behind(served);
  json status;
  for (int look = 0; look < 600; ++look) {
    status = served.status("");
    if (status["step"] > 1) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ASSERT_EQ(status["links"].size(), 3u) << status;
  for (const json& link : status["links"]) {
    const bool apart = link["devices"] == json{1, 2};
    EXPECT_EQ(link["way"], apart ? "relayed" : "direct") << link;
    // Two steps or more of tensors [16, 32] in f32, there and back.
    EXPECT_GE(link["relayed_bytes"], apart ? 2 * 2 * 4 * 16 * 32 * 4 : 0) << link;
    EXPECT_LE(link["relayed_bytes"], apart ? 1'000'000'000 : 0) << link;
    EXPECT_GT(link["latency_seconds"], 0);
    EXPECT_GT(link["seconds_per_byte"], 0);
  }
  const testing::Answer table =
      testing::run(testing::cleave_command({"status", served.address(), "--insecure"}));
  EXPECT_NE(table.out.find("1-2   relayed"), std::string::npos) << table.out;
  served.server().signal(SIGINT);
  EXPECT_EQ(served.server().wait(kServedPatience).exit, 0);
}

}  // namespace
}  // namespace cleave
