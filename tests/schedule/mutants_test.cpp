#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "schedule/oracle/oracle.h"
#include "schedule/oracle/samples.h"
#include "schedule/written.h"
#include <gtest/gtest.h>

#include "cleave/schedule/verifier.h"

namespace cleave::schedule {
namespace {

using oracle::Messages;

int mutant_count() {
  if (const char* text = std::getenv("CLEAVE_MUTANTS")) return std::atoi(text);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 4'000;
#else
  return 100'000;
#endif
}

std::string verdict(const Program& program, Messages messages) {
  std::string text;
  const Level level = messages == Messages::Implied ? Level::Compute : Level::Final;
  for (const Violation& v : verify(program, level)) text += to_string(program, v) + "\n";
  return text;
}

// States that an exhaustive search may visit: one per combination of positions.
double interleavings(const Program& program) {
  double product = 1;
  for (const auto& list : program.lists) product *= static_cast<double>(list.size() + 1);
  return product;
}

std::string opinion(const Program& program, Messages messages, unsigned seed) {
  return interleavings(program) <= 800 ? oracle::run_all(program, messages)
                                       : oracle::run(program, messages, seed);
}

TEST(Oracle, AcceptsSoundPrograms) {
  std::mt19937 random(1);
  for (int n = 0; n < 300; ++n) {
    const Messages messages = n % 5 == 0 ? Messages::Implied : Messages::Explicit;
    const Program program = oracle::sample(random, messages == Messages::Implied);
    ASSERT_EQ(verdict(program, messages), "") << testing::dump(program);
    ASSERT_EQ(opinion(program, messages, n), "") << testing::dump(program);
  }
}

TEST(Oracle, AgreesWithTheVerifierOnMutants) {
  std::mt19937 random(2);
  const int count = mutant_count();
  int sound = 0;
  int exhaustive = 0;
  int collecting = 0;
  int graphs = 0;
  int unequal = 0;
  Program base;
  for (int n = 0; n < count; ++n) {
    const Messages messages = n / 50 % 6 == 0 ? Messages::Implied : Messages::Explicit;
    if (n % 50 == 0) base = oracle::sample(random, messages == Messages::Implied);
    Program mutant = base;
    std::string done = oracle::mutate(mutant, random);
    while (random() % 4 == 0) done += ", " + oracle::mutate(mutant, random);

    const std::string verified = verdict(mutant, messages);
    const std::string ran = opinion(mutant, messages, n);

    sound += ran.empty();
    exhaustive += interleavings(mutant) <= 800;
    collecting += !base.collecting.empty();
    graphs += std::ssize(base.edges) != base.stages - 1;
    unequal += std::ranges::any_of(base.placement, [](const std::vector<int>& devices) {
      return devices.size() > 1 && devices[0] == devices[1];
    });
    ASSERT_EQ(verified.empty(), ran.empty())
        << "mutant " << n << ": " << done << "\nverifier: " << verified << "\noracle: " << ran
        << "\n"
        << testing::dump(mutant);
  }
  RecordProperty("sound", sound);
  RecordProperty("exhaustive", exhaustive);
  std::printf(
      "%d mutants, %d sound, %d in every interleaving, %d collect, %d of graphs, %d with unequal "
      "replicas\n",
      count, sound, exhaustive, collecting, graphs, unequal);
  // Both answers must come up often, or agreement says little.
  EXPECT_GT(sound, count / 20);
  EXPECT_LT(sound, count / 2);
  EXPECT_GT(collecting, count / 20);
  EXPECT_GT(graphs, count / 10);
  EXPECT_GT(unequal, count / 20);
}

}  // namespace
}  // namespace cleave::schedule
