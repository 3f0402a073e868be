#include "cleave/base/codec.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace cleave {
namespace {

std::vector<float> numbers(std::size_t count) {
  const Philox random(1, "numbers");
  std::vector<float> values(count);
  random.fill_normal(0, values);
  return values;
}

std::vector<float> through(const Codec& codec, const std::vector<float>& values,
                           std::uint64_t seed = 1) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(codec.bytes(std::ssize(values))) + 8,
                               std::byte{0x5a});
  codec.encode(values, {Philox(seed, "chance")}, std::span(bytes).first(bytes.size() - 8));
  for (std::size_t i = bytes.size() - 8; i < bytes.size(); ++i)
    EXPECT_EQ(bytes[i], std::byte{0x5a}) << codec.name << " writes too much";
  std::vector<float> result(values.size(), 77.0f);
  codec.decode(std::span(bytes).first(bytes.size() - 8), result);
  return result;
}

TEST(Codec, TakesTheBytesThatItSays) {
  EXPECT_EQ(find_codec("none")->bytes(1000), 4000);
  EXPECT_EQ(find_codec("bf16")->bytes(1000), 2000);
  EXPECT_EQ(find_codec("int8")->bytes(640), 640 + 10 * 4);
  EXPECT_EQ(find_codec("int8")->bytes(65), 64 + 4 + 1 + 4);
  EXPECT_EQ(find_codec("int4")->bytes(320), 160 + 10 * 4);
  EXPECT_EQ(find_codec("int4")->bytes(35), 16 + 4 + 2 + 4);
  EXPECT_EQ(find_codec("topk")->bytes(1001), 8 * 101);
  EXPECT_EQ(find_codec("int3"), nullptr);
}

TEST(Codec, ComesBackAsCloseAsItsBitsAllow) {
  const std::vector<float> values = numbers(777);
  EXPECT_EQ(through(*find_codec("none"), values), values);
  const struct {
    const char* name;
    double levels;  // of the largest number of a block
  } kRounded[] = {{"bf16", 256}, {"int8", 127}, {"int4", 7}};
  for (const auto& [name, levels] : kRounded) {
    const std::vector<float> back = through(*find_codec(name), values);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(back[i], values[i], 4.5 / levels) << name << " " << i;
  }
}

TEST(Codec, RoundsRightInTheMeanAndTheSameForTheSameChance) {
  const std::vector<float> values = numbers(64);
  for (const char* name : {"int8", "int4"}) {
    const Codec& codec = *find_codec(name);
    std::vector<double> mean(values.size());
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
      const std::vector<float> back = through(codec, values, seed);
      for (std::size_t i = 0; i < values.size(); ++i) mean[i] += back[i] / 1000.0;
    }
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(mean[i], values[i], 0.03) << name << " " << i;
    EXPECT_EQ(through(codec, values, 3), through(codec, values, 3));
    EXPECT_NE(through(codec, values, 3), through(codec, values, 4));
  }
}

TEST(Codec, KeepsTheLargestTenth) {
  std::vector<float> values(30, 0.5f);
  values[7] = -3;
  values[29] = 2;
  const std::vector<float> back = through(*find_codec("topk"), values);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(back[i], i == 7 || i == 29 || i == 0 ? values[i] : 0) << i;
}

TEST(Codec, KeepsWhatIsNoNumberBeforeAllNumbers) {
  std::vector<float> values = numbers(1000);
  for (std::size_t i = 5; i < values.size(); i += 40) values[i] = i % 80 == 5 ? NAN : -NAN;
  values[999] = INFINITY;
  const std::vector<float> back = through(*find_codec("topk"), values);
  for (std::size_t i = 5; i < values.size(); i += 40) EXPECT_TRUE(std::isnan(back[i])) << i;
  EXPECT_EQ(back[999], INFINITY);
  EXPECT_EQ(std::ranges::count(back, 0.0f), 900);
}

TEST(Codec, LeavesZerosAlone) {
  for (const Codec& codec : codecs())
    EXPECT_EQ(through(codec, std::vector<float>(100)), std::vector<float>(100)) << codec.name;
}

}  // namespace
}  // namespace cleave
