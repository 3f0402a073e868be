#include "cleave/edge/policy.h"

#include <limits>

#include "support/errors.h"
#include <gtest/gtest.h>

namespace cleave::edge {
namespace {

using Sentences = std::vector<std::string>;

/// A clinic sends a hub an activation and another clinic an update.
struct TwoClinics {
  std::vector<Owner> owners = {{.name = "clinic-a", .layers = {1, 1}},
                               {.name = "clinic-b", .layers = {1, 1}},
                               {.name = "hub", .role = Role::Server}};
  std::vector<Crossing> crossings = {{0, {2}, Class::Activation, {0}, 1000, "tokens → hub"},
                                     {0, {1}, Class::Update, {0}, 500, "REDUCE → clinic-b"},
                                     {1, {2}, Class::Label, {1}, 9999, "targets → hub"}};
  AskedOfOwners asked{.steps = 100, .epsilon = std::numeric_limits<double>::infinity()};

  Sentences refused(const Policy& policy) const {
    return policy_refusals(policy, asked, crossings, owners);
  }
};

Policy all_of(std::vector<Class> sends) {
  return {.owner = "clinic-a", .sends = std::move(sends)};
}

TEST(Policy, AllowsWhatItListsAndLooksAtItsOwnAlone) {
  EXPECT_EQ(TwoClinics().refused(all_of({Class::Activation, Class::Update})), Sentences());
}

TEST(Policy, RefusesClassesAndReceiversWithThePath) {
  const TwoClinics run;
  EXPECT_EQ(run.refused(all_of({Class::Activation})),
            Sentences{"the policy of clinic-a does not let update leave it: REDUCE → clinic-b"});
  Policy policy = all_of({Class::Activation, Class::Update});
  policy.to = {"hub"};
  EXPECT_EQ(run.refused(policy),
            Sentences{"the policy of clinic-a lets nothing go to clinic-b, and "
                      "update would: REDUCE → clinic-b"});
}

TEST(Policy, HoldsNumbersToTheirLimits) {
  const TwoClinics run;
  Policy policy = all_of({Class::Activation, Class::Update});
  policy.bytes = 1500;
  policy.steps = 100;
  policy.layers = 1;
  EXPECT_EQ(run.refused(policy), Sentences());

  policy.bytes = 1499;
  policy.steps = 99;
  policy.layers = 2;
  policy.epsilon = 8;
  const Sentences expected = {
      "the policy of clinic-a lets 1499 B leave it in a step, and the run sends 1500 B",
      "the policy of clinic-a allows 99 steps, and the run has 100",
      "the policy of clinic-a wants 2 layers of its own before what it sends, and the run gives it "
      "1",
      "the policy of clinic-a allows ε 8, and the run costs inf"};
  EXPECT_EQ(run.refused(policy), expected);
}

TEST(Policy, IsOfAnOwnerOfTheRun) {
  EXPECT_EQ(
      cleave::testing::user_error([] { TwoClinics().refused({.owner = "clinic-c"}); }),
      "the policy is of owner \"clinic-c\", and the run has none of that name; set owner to one "
      "of its [[edge.owner]]");
}

}  // namespace
}  // namespace cleave::edge
